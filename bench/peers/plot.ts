/** One bar of a plot. */
export interface Bar {
  label: string
  value: number
  /** What stands at the end of the bar. */
  text: string
  /** Ours; the others are in a quieter colour. */
  isOwn: boolean
}

const [WIDTH, LABELS, TEXTS, ROW, TOP] = [760, 240, 120, 28, 44]

const STYLE = `
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-weight: 600; font-size: 15px }
    .own { fill: #0969da }
    .other { fill: #8c959f }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .own { fill: #58a6ff }
      .other { fill: #6e7681 }
    }`

/** Horizontal bars as an SVG without a background, for light and dark pages. */
export function plot(title: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map(({ value }) => value), Number.MIN_VALUE)
  const height = TOP + bars.length * ROW + 8
  const rows = bars.map(({ label, value, text, isOwn }, n) => {
    const [y, width] = [TOP + n * ROW, Math.max(1, (value / most) * (WIDTH - LABELS - TEXTS))]
    return [
      `  <text x="${LABELS - 10}" y="${y + 15}" text-anchor="end">${escaped(label)}</text>`,
      `  <rect class="${isOwn ? 'own' : 'other'}" x="${LABELS}" y="${y}" width="${width.toFixed(1)}" height="20" rx="2"/>`,
      `  <text x="${(LABELS + width + 8).toFixed(1)}" y="${y + 15}">${escaped(text)}</text>`,
    ].join('\n')
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escaped(title)}">
  <style>${STYLE}
  </style>
  <text class="title" x="8" y="24">${escaped(title)}</text>
${rows.join('\n')}
</svg>
`
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => ENTITIES[sign] as string)
