"""The style sheet of a plan's page: the reader's own fonts and colour scheme, and nothing from elsewhere."""

STYLE = """
:root { color-scheme: light dark; --page: #f7f7f5; --card: #fff; --ink: #1c1d1f; --soft: #5d6066; --edge: #dcdcd6;
  --refuse: #b3261e; --warn: #8a5a00; --info: #2b5fa8; --good: #1d7a3e; --unchecked: #7a4a9e; }
svg, td i { --k0: #3b6fb6; --k1: #d08a2e; --k2: #5a9e6f; --k3: #b4527a; --k4: #7b6bb5; --k5: #3f9aa3; --k6: #a3744b;
  --k7: #8a9a3b; --k8: #c65f4a; --k9: #6f7d8c; --ka: #2f6f5e; --kb: #d4b53a; --kc: #8c4f9f; --kd: #5b87c9;
  --ke: #9c3f3f; --kf: #7fa88f; }
@media (prefers-color-scheme: dark) {
  :root { --page: #16171a; --card: #1f2125; --ink: #e6e6e3; --soft: #a2a5ab; --edge: #34373d; --refuse: #ff8a80;
    --warn: #f0b95a; --info: #8ab4f8; --good: #7fd39a;
    --unchecked: #cda3ec; }
  svg, td i { --k0: #6d9be0; --k1: #e3a85a; --k2: #7fc294; --k3: #d97fa3; --k4: #a294dd; --k5: #66bdc6; --k6: #c59a73;
    --k7: #b1c162; --k8: #e8887a; --k9: #97a5b4; --ka: #5fae97; --kb: #ecd36c; --kc: #be88d0; --kd: #93b4ea;
    --ke: #d67a7a; --kf: #a9cdb8; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem clamp(.75rem, 3vw, 2rem) 3rem; max-width: 62rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .25rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .75rem; }
header p, .soft { color: var(--soft); margin: .25rem 0; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; padding: 1rem;
  margin-top: 1rem; }
.verdict { font-weight: 600; }
.refuse { color: var(--refuse); } .warn { color: var(--warn); }
.info { color: var(--info); } .good { color: var(--good); } .unchecked { color: var(--unchecked); }
.bar { display: block; width: 100%; height: 2.5rem; border: 1px solid var(--edge); border-radius: .25rem; }
.bar rect { stroke: var(--card); stroke-width: 1; vector-effect: non-scaling-stroke; }
.bar .limit { stroke: var(--refuse); stroke-width: 2; stroke-dasharray: 4 3; vector-effect: non-scaling-stroke; }
i.margin { background: var(--soft); opacity: .45; }
.bar .margin { fill: var(--soft); fill-opacity: .35; }
.scroll { overflow-x: auto; } .scroll + .scroll { margin-top: 1.25rem; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: .3rem .75rem .3rem 0; vertical-align: top; border-bottom: 1px solid var(--edge); }
tbody tr:last-child td { border-bottom: 0; }
.memory td:nth-child(n+2):nth-child(-n+3), .memory th:nth-child(n+2):nth-child(-n+3) { text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; }
.beside, .settings { table-layout: fixed; min-width: 32rem; }
.beside td, .beside th, .settings td { overflow-wrap: anywhere; }
.settings th:first-child { width: 32%; } .settings th:last-child { width: 28%; }
.beside th:first-child { width: 32%; } .beside th:last-child { width: 12%; }
.numbers td:nth-child(n+2), .numbers th:nth-child(n+2) { text-align: right; font-variant-numeric: tabular-nums; }
.memory td:last-child, .switches td:last-child { color: var(--soft); }
td span { display: flex; align-items: baseline; }
td i { flex: none; width: .7rem; height: .7rem; border-radius: .15rem; margin-right: .5rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; margin: 0;
  align-items: end; }
dt { color: var(--soft); font-size: .875rem; }
dd { margin: 0; } dd.number { font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.findings { list-style: none; margin: 0; padding: 0; }
.findings li { padding: .6rem 0; border-top: 1px solid var(--edge); overflow-wrap: anywhere; }
.findings li:first-child { border-top: 0; padding-top: 0; } .findings li:last-child { padding-bottom: 0; }
.findings p { margin: .15rem 0; }
pre { margin: 0; padding: .75rem; overflow-x: auto; background: var(--page); border-radius: .25rem;
  font-size: .8125rem; }
code { font-family: ui-monospace, monospace; font-size: .875em; overflow-wrap: anywhere; }
pre + pre { margin-top: .75rem; }
@media (max-width: 40rem) { .memory, .memory tbody, .memory tr { display: block; } .memory thead { display: none; }
  .memory tr { display: grid; grid-template-columns: 1fr auto 3rem; border-bottom: 1px solid var(--edge);
    padding: .4rem 0; column-gap: .75rem; } .memory td { border: 0; padding: 0; }
  .memory td:last-child { grid-column: 1 / -1; font-size: .875rem; } }
""" + "\n".join(f".k{n} {{ fill: var(--k{n}); background: var(--k{n}); }}" for n in "0123456789abcdef")
