"""Orders of the person to the client, carried out: `/mode plan`, `/config`, `/expand`."""

from twofold.client.session import ClientSession
from twofold.session import Session
from twofold.term.client.drawing import Drawing
from twofold.term.draw import plan_lines
from twofold.term.input.order_lines import config_lines, help_lines, mode_lines, usage_lines
from twofold.term.input.orders import Order, read_choice, read_mode
from twofold.term.lines import Drawn, line
from twofold.view.outline import plan_block


async def obey(order: Order, session: ClientSession, drawing: Drawing) -> bool:
    """Do what was ordered, and show what came of it; False to leave."""
    state = session.state
    match order.name:
        case "quit":
            return False
        case "help":
            drawing.tell(help_lines(state))
        case "usage":
            drawing.tell(usage_lines(state))
        case "plan":
            drawing.tell(_plans(state))
        case "mode":
            if order.argument:
                await session.set_mode(read_mode(order.argument, state))
            drawing.tell(mode_lines(session.state))
        case "config":
            drawing.tell(await _config(order.argument, session))
        case "thoughts":
            drawing.tell([_thoughts(drawing)])
        case "expand":
            rows = drawing.board.expanded(drawing.width)
            drawing.print([(), *(rows or line("Nothing was folded.", "dim").rows(None))])
    return True


async def _config(argument: str, session: ClientSession) -> list[Drawn]:
    if not argument:
        return [*config_lines(session.state)]
    choice = read_choice(argument, session.state)
    if choice.value is not None:
        await session.set_config_option(choice.config_id, choice.value)
    return [*config_lines(session.state, choice.config_id)]


def _plans(state: Session) -> list[Drawn]:
    plans = [plan_block(update.plan) for update in state.plans.values()]
    shown = [each for plan in plans for each in plan_lines(plan)]
    return shown or [line("The agent has no plan.", "dim")]


def _thoughts(drawing: Drawing) -> Drawn:
    board = drawing.board
    board.fold_thoughts = not board.fold_thoughts
    how = "folded" if board.fold_thoughts else "shown in full"
    return line(f"Thoughts are {how} from now on.", "dim")
