import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folder, ROOT, redress, running } from '../../packages/redress/test/cli/command.ts'

const BLOCK = /^```(\w*)\n(.*?)^```/gms
const blocks = [...readFileSync(join(ROOT, 'docs/start.md'), 'utf8').matchAll(BLOCK)].map(
  ([, language = '', text = '']) => ({ language, text }),
)

/** What differs from run to run: ids, times, durations, places, and the spaces that fill columns. */
function steady(text: string): string {
  return text
    .replaceAll(join(ROOT, 'packages/redress/bin/redress'), 'npx redress')
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, 'SERVER')
    .replaceAll(/code=\S+/g, 'code=SECRET')
    .replaceAll(/\S+:\d+:\w+/g, 'WORKER')
    .replaceAll(/(?<=store {3})\S+/g, 'FILE')
    .replaceAll(/(?<=types .*watermark\.video, ).*/g, '...')
    .replaceAll(/\b[\d.]+ (ms|s)\b/g, 'TIME')
    .replaceAll(/ [-+] (?=TIME jitter)/g, ' + ')
    .replaceAll(/\s+/g, ' ')
    .trim()
}

test('the commands of the start page print what it shows', async () => {
  const cwd = folder()
  const [, introduction, ...rest] = blocks
  const server = await running(['start', '--port', '0'], { cwd, says: 'Ctrl-C stops it' })
  expect(steady(server.stdout())).toBe(steady(introduction?.text ?? ''))

  const ids: string[] = []
  for (const [index, { language, text }] of rest.entries()) {
    // From here on the reader writes a program of their own.
    if (language === 'ts') break
    if (language !== 'sh') continue
    let printed = ''
    for (const line of text.trim().split('\n')) {
      const words = (line.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", '')).slice(2)
      const args = words.map((word) => (word.includes('-7000-') ? (ids.at(-1) ?? '') : word))
      if (args[0] === 'retry' || args[0] === 'explain') await redress(['jobs', 'wait', ids.at(-1) ?? ''], { cwd })
      const { stdout, stderr } = await redress(args, { cwd })
      printed = stdout + stderr
      const made = /^(?:Submitted|Made) job (\S{36})/.exec(printed)?.[1]
      if (made !== undefined) ids.push(made)
    }
    const shown = rest[index + 1]
    if (shown?.language !== '') continue
    // A list is as of its moment: the attempts go on while the reader types.
    const isList = /^npx redress jobs$/m.test(text)
    if (isList) expect(printed.split('\n')[0]?.split(/ +/)).toEqual(shown.text.split('\n')[0]?.split(/ +/))
    else expect(steady(printed)).toContain(steady(shown.text))
  }
  expect(ids).toHaveLength(3)
}, 60_000)
