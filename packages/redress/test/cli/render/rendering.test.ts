import { describe, expect, test } from 'vitest'
import { quoted } from '../../../src/cli/language/commands.ts'
import { columns, facts } from '../../../src/cli/terminal/columns.ts'
import { progressOn } from '../../../src/cli/terminal/progress.ts'
import { age, ago, terminalOf } from '../../../src/cli/terminal/terminal.ts'

const NOW = Date.UTC(2026, 0, 1)
const file = terminalOf({}, {}, NOW)
const narrow = terminalOf({ isTTY: true, columns: 60 }, { NO_COLOR: '1' }, NOW)
const rows = [
  { id: '0190a5a0-0000-7000-8000-000000000001', type: 'a.type.with.a.long.name', n: 7 },
  { id: '0190a5a0-0000-7000-8000-000000000002', type: 'b', n: 12_345 },
]
const shape = [
  { title: 'ID', of: (row: (typeof rows)[0]) => row.id },
  { title: 'N', of: (row: (typeof rows)[0]) => row.n, isNumber: true },
  { title: 'TYPE', of: (row: (typeof rows)[0]) => row.type, charsMin: 8 },
]

describe('a table', () => {
  test('is not truncated in a file', () => {
    expect(columns(rows, shape, file)).toBe(
      `ID                                        N  TYPE
0190a5a0-0000-7000-8000-000000000001      7  a.type.with.a.long.name
0190a5a0-0000-7000-8000-000000000002  12345  b
`,
    )
  })

  test('fits the terminal by truncating flexible columns only', () => {
    const lines = columns(rows, shape, narrow).trimEnd().split('\n')
    expect(Math.max(...lines.map((line) => line.length))).toBe(60)
    expect(lines[1]).toBe('0190a5a0-0000-7000-8000-000000000001      7  a.type.with.a.…')
  })

  test('prints stored text on one line without control characters', () => {
    const nasty = [{ id: 'a\nb', type: '\u001b[31mred\u0007', n: 1 }]
    expect(columns(nasty, shape, file).split('\n')[1]).toBe('a b  1  red�')
    expect(
      facts(
        [
          ['error', 'one\ntwo'],
          ['none', null],
        ],
        file,
      ),
    ).toBe('error  one two\n')
  })
})

describe('colours', () => {
  test.each([
    ['on a terminal', { isTTY: true }, {}, '\u001b[31mno\u001b[39m'],
    ['not in a file', {}, {}, 'no'],
    ['not with NO_COLOR', { isTTY: true }, { NO_COLOR: '1' }, 'no'],
    ['not on a dumb terminal', { isTTY: true }, { TERM: 'dumb' }, 'no'],
    ['with an empty NO_COLOR, as its standard says', { isTTY: true }, { NO_COLOR: '' }, '\u001b[31mno\u001b[39m'],
  ])('%s', (_, stream, env, painted) => {
    expect(terminalOf(stream, env, NOW).paint('bad', 'no')).toBe(painted)
  })
})

test.each([
  [-90_000, '1 m 30 s ago', '1 m'],
  [-400, 'now', '400 ms'],
  [5_000, 'in 5 s', '0 ms'],
  [-3 * 86_400_000, '3 d ago', '3 d'],
])('%i ms ago is printed as %j, and as %j in short', (ms, long, short) => {
  const at = new Date(NOW + ms).toISOString()
  expect([ago(at, file), age(at, file)]).toEqual([long, short])
})

test.each([
  ['/var/lib/redress', '/var/lib/redress'],
  ['my data', "'my data'"],
  ["it's", `'it'\\''s'`],
])('a command to paste is quoted for the shell: %s', (text, shell) => {
  expect(quoted(text)).toBe(shell)
})

describe('progress', () => {
  function shown(isTTY: boolean, env: NodeJS.ProcessEnv = {}): string[] {
    const written: string[] = []
    const stream = { isTTY, columns: 60, write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream
    const progress = progressOn(stream, env)
    progress.show({ what: 'jobs: 1 of 4', done: 1, total: 4 })
    progress.show({ what: 'jobs: 2 of 4', done: 2, total: 4 })
    progress.show({ what: 'jobs: 4 of 4', done: 4, total: 4 })
    progress.clear()
    return written
  }

  test('is one line that is overwritten at most every 100 ms and removed at the end', () => {
    const [first, last, cleared, ...rest] = shown(true, { NO_COLOR: '1' })
    expect(first).toBe('\r\u001b[K[#####---------------]  25 %  jobs: 1 of 4')
    expect(last).toBe('\r\u001b[K[####################] 100 %  jobs: 4 of 4')
    expect([cleared, rest]).toEqual(['\r\u001b[K', []])
  })

  test('has colours on a colour terminal, and prints nothing without a terminal', () => {
    expect(shown(true)[0]).toContain('\u001b[32m#####\u001b[39m')
    expect(shown(false)).toEqual([])
    expect(shown(true, { TERM: 'dumb' })).toEqual([])
  })
})
