"""The stylesheet of an exported page: light and dark, for screens of any width and for paper."""

from typing import Final

# Name: (in light, in dark). Readable on the ground of the page, which terminals' own often are not.
_PALETTE: Final = {
    "black": ("#24292f", "#8b949e"),
    "red": ("#b3261e", "#ff8f85"),
    "green": ("#1a7f37", "#6fd184"),
    "yellow": ("#8a5a00", "#e3b341"),
    "blue": ("#0a58ca", "#79b8ff"),
    "magenta": ("#8b2fb5", "#d8a2ff"),
    "cyan": ("#0b6e7f", "#6bd6e3"),
    "white": ("#57606a", "#e6edf3"),
}
COLOURS: Final = frozenset({*_PALETTE, *(f"bright_{name}" for name in _PALETTE), "text", "ground"})
"""The names of colours that the stylesheet has classes for."""


def _colour_rules() -> str:
    rules = [
        ".f-text{color:var(--text)}.b-text{background:var(--text)}",
        ".f-ground{color:var(--code)}.b-ground{background:var(--code)}",
    ]
    for name, (light, dark) in _PALETTE.items():
        for each in (name, f"bright_{name}"):
            rules.append(f".f-{each}{{color:light-dark({light},{dark})}}")
            rules.append(f".b-{each}{{background:light-dark({light},{dark});color:var(--page)}}")
    return "\n".join(rules)


_RULES: Final = """
:root{color-scheme:light dark;
--page:light-dark(#ffffff,#14171b);--text:light-dark(#1f2328,#e4e8ec);
--soft:light-dark(#5b636c,#9aa4ae);--line:light-dark(#d8dee4,#2f363d);
--code:light-dark(#f5f6f8,#1c2127);--user:light-dark(#eaf2fd,#182638);
--added:light-dark(#e3f6e6,#12301c);--removed:light-dark(#fdeaea,#3a191b);
--added-mark:light-dark(#a9e5b5,#1f6a37);--removed-mark:light-dark(#f8bcbc,#85292c);
--good:light-dark(#1a7f37,#6fd184);--bad:light-dark(#b3261e,#ff8f85);
--busy:light-dark(#8a5a00,#e3b341)}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);overflow-wrap:anywhere;
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:52rem;margin:0 auto;padding:1.5rem 1rem 4rem}
header{margin:2.5rem 0 1rem}header:first-child{margin-top:0}
h1{font-size:1.6rem;line-height:1.25;margin:0}
h2{font-size:.95rem;margin:2.25rem 0 1rem;padding-top:.6rem;border-top:1px solid var(--line);
font-weight:600;color:var(--soft)}
h3{font-size:1rem;margin:0;font-weight:600}
h4,h5,h6{font-size:1rem;margin:1.2em 0 .4em}
p,ul,ol,blockquote,pre,table{margin:.6em 0}
ul,ol{padding-left:1.6em}li>p{margin:.15em 0}li.task{list-style:none;margin-left:-1.3em}
li.task>p{display:inline}
blockquote{border-left:3px solid var(--line);padding-left:.9em;color:var(--soft);margin-left:0}
a{color:light-dark(#0a58ca,#79b8ff)}
hr{border:0;border-top:1px solid var(--line);margin:1.5em 0}
img{display:block;max-width:100%;height:auto;border-radius:4px;margin:.6em 0}
.facts{color:var(--soft);font-size:.875rem;font-weight:400}
header .facts{margin:.35em 0 0}
.text{white-space:pre-wrap}
.user{background:var(--user);border-radius:8px;padding:.7rem 1rem;margin:1rem 0}
.user p{margin:.3em 0}
.agent{margin:1rem 0}.agent>:first-child{margin-top:0}
.session{border-left:3px solid var(--line);padding-left:1rem;margin:1rem 0}
.thought{color:var(--soft);margin:1rem 0;font-size:.9375rem}
.thought summary{cursor:pointer}.thought>.text{padding:.4rem 0 0 1.1rem}
.call{border:1px solid var(--line);border-left:4px solid var(--soft);border-radius:6px;
padding:.55rem .8rem;margin:.9rem 0}
.call>:last-child{margin-bottom:0}
.call.completed{border-left-color:var(--good)}.call.completed .glyph{color:var(--good)}
.call.failed,.call.rejected{border-left-color:var(--bad)}
.call.failed .glyph,.call.rejected .glyph,.call.failed .status,.call.rejected .status{
color:var(--bad)}
.call.in_progress,.call.waiting,.call.paused{border-left-color:var(--busy)}
.status{color:var(--soft);font-weight:400;font-size:.875rem}
.call>.text{font:.8125rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
margin-top:.5em;max-height:32rem;overflow:auto}
.files{list-style:none;padding:0;margin:.15em 0;font:.8125rem/1.5 ui-monospace,SFMono-Regular,
Menlo,Consolas,monospace;color:var(--soft)}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.8125rem;tab-size:4}
:not(pre)>code{background:var(--code);padding:.1em .3em;border-radius:4px;font-size:.875em}
pre{background:var(--code);border-radius:6px;padding:.6rem .8rem;overflow-x:auto;line-height:1.45;
overflow-wrap:normal}
.terminal{max-height:32rem;overflow:auto}
.command{font-weight:600}
.diff{padding:.4rem 0}
.diff span{white-space:pre}
.diff>span{display:block;min-width:max-content;padding:0 .8rem}
.diff>.file{font-weight:600;padding-top:.2rem;padding-bottom:.2rem}
.diff>.hunk,.diff>.note{color:var(--soft)}
.diff>.added{background:var(--added)}.diff>.removed{background:var(--removed)}
mark{color:inherit;border-radius:2px}
.added mark{background:var(--added-mark)}.removed mark{background:var(--removed-mark)}
.remark{color:var(--soft);font-size:.875rem;margin:.5em 0}
.remark.warning{color:var(--busy)}.remark.error{color:var(--bad)}
.notice,.question{border-left:3px solid var(--busy);padding-left:.8rem;margin:.9rem 0}
.asked{font-weight:600}
.plan{list-style:none;padding:0}.plan .completed,.plan .cancelled{color:var(--soft)}
.plan .cancelled{text-decoration:line-through}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.9375rem}
th,td{border:1px solid var(--line);padding:.3em .7em;text-align:left;vertical-align:top}
th{background:var(--code)}
footer{border-top:1px solid var(--line);margin-top:2rem}
.bold{font-weight:600}.dim{opacity:.75}.italic{font-style:italic}
.underline{text-decoration:underline}.strike{text-decoration:line-through}
@media (max-width:32rem){main{padding:1rem .75rem 3rem}.call{padding:.5rem .6rem}
pre{margin-left:-.1rem;margin-right:-.1rem}}
@media print{:root{color-scheme:light}main{max-width:none;padding:0}
pre,.terminal,.call>.text{max-height:none;white-space:pre-wrap;overflow:visible}
details::details-content{content-visibility:visible;display:block}
.diff>span{white-space:pre-wrap;min-width:0}.call,pre{break-inside:auto}h2,h3{break-after:avoid}}
"""

BASE: Final = _RULES.strip() + "\n" + _colour_rules()
"""All rules but those for the colours that one page needs."""
