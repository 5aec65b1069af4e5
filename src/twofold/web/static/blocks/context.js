/**
 * What a block needs beside itself to be drawn: types only, no code.
 *
 * @import {Location, Media} from "../contract.js"
 *
 * @typedef {{
 *   key: string,
 *   isOpen: (part: string, byDefault?: boolean) => boolean,
 *   setOpen: (part: string, open: boolean) => void,
 *   openFile: (location: Location) => void,
 *   media: (key: string, media: Media) => Promise<string>,
 *   wide: boolean,
 * }} Context
 *
 * @typedef {{
 *   element: HTMLElement,
 *   grow?: () => void,
 *   near?: (from: number, to: number) => number | null,
 *   topOf?: (text: string) => number | null,
 * }} Drawn `grow`: its block has grown; `near`: this part of it, in pixels, is on the screen;
 *   `topOf`: where in it a text is, in pixels
 */

export {};
