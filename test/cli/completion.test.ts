import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { COMMANDS, nameOf } from '../../src/cli/commands.ts'
import { folder, redress } from './command.ts'

const scripts: Record<string, string> = {}
beforeAll(async () => {
  for (const shell of ['bash', 'zsh', 'fish']) scripts[shell] = (await redress(['completion', shell])).stdout
}, 60_000)

describe('bash, asked as a person with a Tab key would', () => {
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

test.each(['zsh', 'fish'])('%s gets every command, too', (shell) => {
  for (const command of COMMANDS) {
    for (const word of command.words) expect(scripts[shell]).toContain(word)
    expect(scripts[shell]).toContain(nameOf(command))
  }
})

test('another shell is told which there are', async () => {
  expect(await redress(['completion', 'csh'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Choose one of bash, zsh, fish.'),
  })
})
