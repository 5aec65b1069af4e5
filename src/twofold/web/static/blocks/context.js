/**
 * What a block needs beside itself to be drawn: types only, no code.
 *
 * @import {Location, Media, Piece} from "../contract.js"
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
 *   grow?: (settled: Piece[], tail: Piece[]) => void,
 * }} Drawn
 */

export {};
