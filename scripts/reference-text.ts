const NOTE =
  '<!-- Made by `npm run docs` from the tables in packages/redress/src/ and scripts/. Change those, not this page. -->'

export function page(title: string, ...parts: string[]): string {
  return `${[`# ${title}`, NOTE, ...parts].join('\n\n')}\n`
}

export function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) =>
    `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}

export const fenced = (text: string, language = ''): string => `\`\`\`${language}\n${text}\n\`\`\``
