/**
 * Draws a block of any kind.
 *
 * @import {Context, Drawn} from "./context.js"
 * @import {Block} from "../contract.js"
 */

import { message } from "./message.js";
import * as remarks from "./remarks.js";
import { toolCall } from "./tool_call.js";

/** @type {Record<string, (block: Block, context: Context) => Drawn>} */
const KINDS = {
  MessageBlock: message,
  ToolCallBlock: toolCall,
  NoticeBlock: remarks.notice,
  CompactionBlock: remarks.compaction,
  SubagentBlock: remarks.subagent,
  RemarkBlock: remarks.remark,
  HeadingBlock: remarks.heading,
  PlanBlock: remarks.planCard,
  UnknownBlock: remarks.unknownUpdate,
};

/**
 * @param {Block} block
 * @param {Context} context
 * @returns {Drawn}
 */
export function draw(block, context) {
  return (Object.hasOwn(KINDS, block.type) ? KINDS[block.type] : remarks.unknownBlock)(
    block,
    context,
  );
}
