import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { COMMANDS, nameOf } from '../../../src/cli/language/commands.ts'
import { folder, redressAlone } from '../command.ts'

const scripts: Record<string, string> = {}
beforeAll(async () => {
  for (const shell of ['bash', 'zsh', 'fish']) scripts[shell] = (await redressAlone(['completion', shell])).stdout
}, 60_000)

describe('bash completion', () => {
  function completed(...words: string[]): string[] {
    const file = join(folder(), 'redress.bash')
    writeFileSync(file, scripts.bash ?? '')
    const typed = ['redress', ...words].map((word) => `'${word}'`).join(' ')
    const asked = `source ${file}; COMP_WORDS=(${typed}); COMP_CWORD=${words.length}; _redress; echo "\${COMPREPLY[*]}"`
    return execFileSync('bash', ['-c', asked], { encoding: 'utf8' })
      .trim()
      .split(' ')
      .filter((word) => word !== '')
  }

  test.each([
    [['st'], ['start']],
    [['jobs', 'ma'], ['mark-failed']],
    [['jobs', 'list', '--stat'], ['--status']],
    [['jobs', 'list', '--status', 'f'], ['failed']],
    [['failures', 'list', '--state', 'reg'], ['regressed']],
    [['retry', 'JOB', '--rea'], ['--reason']],
    [['jobs', 'cancel', 'JOB', '--y'], ['--yes']],
    [
      ['start', '--no-'],
      ['--no-auth', '--no-worker', '--no-http', '--no-retry'],
    ],
    [['jobs', 'show', ''], []],
  ])('%j', (typed, expected) => {
    expect(completed(...typed)).toEqual(expected)
  })
})

describe('fish', () => {
  /** Not everybody has fish: there, the script is only looked at. */
  const hasFish = (() => {
    try {
      execFileSync('fish', ['--version'])
      return true
    } catch {
      return false
    }
  })()

  test('counts words as fish does, without those in quotes', () => {
    expect(scripts.fish).not.toMatch(/"[^"\n]*\(count/)
  })

  test.each([
    ['redress st', ['start']],
    ['redress jobs ma', ['mark-failed']],
    ['redress jobs list --stat', ['--status']],
    ['redress jobs list --status f', ['failed']],
    ['redress retry JOB --rea', ['--reason']],
    ['redress queues p', ['pause']],
  ])(
    `is asked as a person with a Tab key would${hasFish ? '' : ' (there is no fish here: nothing is asked)'}: %s`,
    (typed, expected) => {
      const file = join(folder(), 'redress.fish')
      writeFileSync(file, scripts.fish ?? '')
      if (!hasFish) return
      const said = spawnSync('fish', ['--no-config', '-c', `source ${file}; complete -C '${typed}'`], {
        encoding: 'utf8',
      })
      expect(said.stderr).toBe('')
      const words = said.stdout.split('\n').map((line) => line.split('\t')[0] ?? '')
      expect(words.filter((word) => word !== '')).toEqual(expected)
    },
  )
})

test.each(['zsh', 'fish'])('the %s script has every command', (shell) => {
  for (const command of COMMANDS) {
    for (const word of command.words) expect(scripts[shell]).toContain(word)
    expect(scripts[shell]).toContain(nameOf(command))
  }
})

test('an unsupported shell is refused with the supported ones', async () => {
  expect(await redressAlone(['completion', 'csh'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Choose one of bash, zsh, fish.'),
  })
})
