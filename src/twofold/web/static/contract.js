/**
 * The shapes of what the server sends: types only, no code.
 *
 * A field that has its default is left out, so almost everything may be missing.
 *
 * @typedef {[text: string, style: string][]} Parts
 *
 * @typedef {{type: string, number?: number, task?: boolean, opens?: boolean}} Container
 * @typedef {{
 *   text: string, strong?: boolean, emphasis?: boolean, strike?: boolean, code?: boolean,
 *   url?: string, target?: string, image?: boolean
 * }} Span
 *
 * @typedef {{path: string, line?: number | null, name?: string}} Location
 * @typedef {{
 *   kind: string, text: string, old?: number, new?: number, marks?: [number, number][],
 *   spans?: Parts
 * }} DiffLine
 * @typedef {{
 *   n?: number, kind: string, mime?: string | null, size?: number, url?: string, path?: string,
 *   description?: string
 * }} Media
 *
 * A piece of a message or of a tool call: an item, or a block of Markdown.
 * @typedef {{
 *   type: string, within?: Container[], text?: string, markdown?: Piece[], raw?: unknown,
 *   lines?: DiffLine[], media?: Media, command?: string, cwd?: string, received?: boolean,
 *   exit?: string, succeeded?: boolean, rows?: Parts[], hidden?: number,
 *   level?: number, spans?: any, continues?: boolean, language?: string, fenced?: boolean,
 *   header?: Span[][], aligns?: string[], rowsOfCells?: Span[][][], cells?: Span[][]
 * }} Piece
 *
 * @typedef {{type: string, [field: string]: any}} Block
 *
 * @typedef {{question: string, key?: string | null, title: string, kind?: string, parts: Piece[],
 *   options: {option: string, name: string, kind: string}[], since?: number, why?: string,
 *   canReason?: boolean}} Question
 * @typedef {{id: string, name: string, kind: string, value: string | boolean,
 *   choices?: {value: string, name: string, description?: string | null}[]}} Control
 * @typedef {{item: string, text: string, attachments?: any[], by?: string,
 *   held?: boolean}} Queued
 * @typedef {{
 *   session?: {id: string, epoch: string, agent: string, title?: string | null, cwd: string,
 *     state: string, failure?: string | null, since?: number | null, canPrompt?: boolean,
 *     capabilities?: {image?: boolean, audio?: boolean, embedded?: boolean}},
 *   queue?: Queued[], questions?: Question[],
 *   answered?: {question: string, by: string, words: string}[],
 *   controls?: Control[], commands?: {name: string, description?: string, hint?: string}[],
 *   usage?: {words: string} | null,
 *   plan?: Block[], problems?: {kind: string, words: string}[]
 * }} Facts
 *
 * @typedef {{
 *   seq: number, count: number, put?: [at: number | null, key: string, version: number,
 *   block: Block][], grow?: [key: string, settled: Piece[], tail: Piece[]][], gone?: string[],
 *   facts?: Facts
 * }} Frame
 *
 * @typedef {{id: string, title?: string | null, agent: string, cwd: string, state: string,
 *   failure?: string | null, activity?: number, words?: string}} SessionFacts
 * @typedef {{role: string, name: string, version: string, cwd: string, home?: string, now?: number,
 *   agents: {name: string, installed?: boolean}[]}} Welcome
 */

export {};
