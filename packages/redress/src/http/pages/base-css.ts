/** What every page of the server looks like, in light and in dark. */
export const BASE_CSS = `:root {
  color-scheme: light dark;
  --text: light-dark(#1b1f24, #e6e8eb);
  --quiet: light-dark(#57606a, #9aa4af);
  --ground: light-dark(#ffffff, #14171a);
  --raised: light-dark(#f4f6f8, #1e2327);
  --line: light-dark(#d5dae0, #343b42);
  --accent: light-dark(#0b57d0, #7fb0ff);
  --on-accent: light-dark(#ffffff, #0b1220);
  --problem: light-dark(#b3261e, #ff9d94);
}
* { box-sizing: border-box }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif }
main { max-width: 40rem; margin: 4rem auto; padding: 0 1.25rem }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem }
code, pre { font: 0.9em/1.5 ui-monospace, monospace }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem; overflow-x: auto }
button { font: inherit; color: var(--on-accent); background: var(--accent); border: 0; border-radius: 6px; padding: 0.6rem 1.25rem; cursor: pointer }
button:focus-visible, a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.problem { color: var(--problem) }
.quiet { color: var(--quiet) }
`
