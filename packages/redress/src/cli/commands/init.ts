import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import { manifest } from '../../runtime/manifest.ts'
import { quoted } from '../language/commands.ts'
import { ownOption, type Parsed } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { type Terminal, terminalOf } from '../terminal/terminal.ts'
import { addedFiles, type NewFile, newProject } from './init-files.ts'

const NAME_CHARS_MAX = 214
const STEP_CHARS_MAX = 45
const GITIGNORE = '.gitignore'

export const init: Program = {
  options: [ownOption('dry-run', 'flag', 'only show the files that would be made')],
  places: [{ name: 'folder', description: 'folder of the project; this one when left out' }],
  examples: ['redress init my-jobs', 'redress init', 'redress init --dry-run'],
  run: (_command, parsed) => runInit(parsed),
}

async function runInit({ values, positionals: [folder = '.'] }: Parsed): Promise<void> {
  // An empty name is an unset variable of a script, not a wish for the current folder.
  if (folder === '') {
    throw new RedressError('OPTION_INVALID', 'The folder name is empty. Nothing was made.', {
      action: 'Name a folder, or leave the name out to use the current folder.',
    })
  }
  const project = resolve(folder)
  const isAdded = existsSync(join(project, 'package.json'))
  const added = isAdded ? placeFor(project) : null
  const all =
    added === null ? newProject(nameFor(project), manifest().version) : addedFiles(added.folder, added.language)
  // Most new repositories have one. It is kept, and a step says what to add.
  const kept = all.filter(({ path }) => path === GITIGNORE && existsSync(join(project, path)))
  const files = all.filter((file) => !kept.includes(file))
  refuseExisting(project, files)
  const isDryRun = values['dry-run'] === true
  if (!isDryRun) await makeAll(project, files)
  const next = [
    ...(project === resolve('.') ? [] : [{ command: `cd ${quoted(folder.replace(/^-/, './-'))}`, does: '' }]),
    ...(added === null ? STEPS_NEW : stepsForAdded(added)),
    ...(added === null && kept.length === 0 ? [] : [IGNORE]),
  ]
  const made: Made = {
    isDone: !isDryRun,
    project,
    isAdded,
    files: files.map(({ path }) => path),
    kept: kept.map(({ path }) => path),
    next,
  }
  if (values.json === true) process.stdout.write(`${JSON.stringify(made, null, 2)}\n`)
  else process.stdout.write(inWords(made, folder, terminalOf(process.stdout, process.env, 0)))
}

interface Step {
  command: string
  does: string
}

interface Made {
  isDone: boolean
  project: string
  isAdded: boolean
  files: readonly string[]
  kept: readonly string[]
  next: readonly Step[]
}

function inWords({ isDone, isAdded, files, kept, next }: Made, folder: string, { paint }: Terminal): string {
  const verb = isDone ? paint('good', 'Made') : 'Would make'
  const what = isAdded
    ? 'Added a job type with its policy, and a test. No existing file was changed.'
    : 'Made a project: a job type with its policy, and a test.'
  // One long command must not push all explanations over the edge of a terminal.
  const width = Math.max(...next.map(({ command }) => command.length).filter((length) => length <= STEP_CHARS_MAX))
  return [
    ...files.map((path) => `${verb} ${join(folder, path)}`),
    ...kept.map((path) => `${isDone ? 'Kept' : 'Would keep'} ${join(folder, path)}, which exists`),
    '',
    isDone ? what : 'Dry run: nothing was made.',
    '',
    'Next:',
    '',
    ...next.map(({ command, does }) =>
      `  ${paint('strong', command)}${' '.repeat(Math.max(0, width - command.length))}  ${paint('quiet', does)}`.trimEnd(),
    ),
    '',
    '',
  ].join('\n')
}

const SUBMIT: Step = {
  command: `npx redress submit mail.welcome '{"to":"a@example.org"}'`,
  does: 'in another terminal',
}
const IGNORE: Step = { command: `echo '.redress/' >> ${GITIGNORE}`, does: 'keeps the job store out of git' }

const STEPS_NEW: readonly Step[] = [
  { command: 'npm install', does: 'installs Redress, zod and TypeScript' },
  { command: 'npm test', does: 'runs the test' },
  { command: 'npm start', does: 'runs a worker and the dashboard' },
  SUBMIT,
]

interface Place {
  /** From the folder of the project. */
  folder: string
  language: 'ts' | 'js'
  /** How this project adds a package. */
  add: string
}

/**
 * In `src` if there is one: a TypeScript file beside it would become part of the build, and move its output from
 * `dist/index.js` to `dist/src/index.js`.
 */
function placeFor(project: string): Place {
  const has = (path: string): boolean => existsSync(join(project, path))
  return {
    folder: has('src') ? 'src/redress' : 'redress',
    language: has('tsconfig.json') ? 'ts' : 'js',
    add: has('pnpm-lock.yaml')
      ? 'pnpm add'
      : has('yarn.lock')
        ? 'yarn add'
        : has('bun.lock')
          ? 'bun add'
          : 'npm install',
  }
}

const stepsForAdded = ({ folder, language, add }: Place): Step[] => [
  { command: `${add} redress@^${manifest().version} zod@^4.0.0`, does: 'adds the packages' },
  { command: `node --test ${folder}/app-test.mjs`, does: 'runs the test' },
  {
    command: `npx redress start --app ${folder}/app.m${language}`,
    does: 'runs a worker and the dashboard',
  },
  SUBMIT,
]

/** A valid npm name, from the name of the folder. */
function nameFor(project: string): string {
  const name = basename(project)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+|-+$/g, '')
    .slice(0, NAME_CHARS_MAX)
  // A project with the name of one of its packages cannot install it.
  return ['', 'redress', 'zod', 'typescript', 'node_modules'].includes(name) ? 'my-jobs' : name
}

function refuseExisting(project: string, files: readonly NewFile[]): void {
  const there = files.map(({ path }) => path).filter((path) => existsSync(join(project, path)))
  if (there.length === 0) return
  const verb = there.length === 1 ? 'exists' : 'exist'
  throw new RedressError('OPTION_INVALID', `${there.join(', ')} already ${verb} in ${project}. Nothing was made.`, {
    action: 'Choose another folder, or move the existing files.',
  })
}

/** All or none. A file that appeared in the meantime is not replaced. */
async function makeAll(project: string, files: readonly NewFile[]): Promise<void> {
  const made: string[] = []
  try {
    for (const { path, text } of files) {
      const file = join(project, path)
      // Returns the first folder that it made.
      const first = await mkdir(dirname(file), { recursive: true })
      if (first !== undefined) made.unshift(first)
      await writeFile(file, text, { flag: 'wx' })
      made.unshift(file)
    }
  } catch (error) {
    for (const path of made) await rm(path, { recursive: true, force: true })
    const { message } = error as Error
    throw new RedressError(
      'OPTION_INVALID',
      `The project cannot be made in ${project}: ${message}. Nothing was made.`,
      {
        cause: error,
        action: 'Choose a folder that you may write to.',
      },
    )
  }
}
