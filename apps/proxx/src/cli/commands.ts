import type { AppCommand, CommandOption } from 'redress/http'

const SPEC_FILE = 'the spec: a file with JSON, or - for standard input'
const JOB_ID = 'id of the job'
const REASON: CommandOption = { name: 'reason', kind: 'text', description: 'why: kept in the history' }
/** Loaded when a command is run: help must not wait for the engine. */
const load = () => import('./run.ts')

export const DEFAULT_NAMING = '{source_name}_{index}'

export const commands: readonly AppCommand[] = [
  {
    usage: 'proxx validate <file>',
    summary: 'Check a spec for proxx, and all that it names. Records nothing.',
    arguments: { file: SPEC_FILE },
    examples: ['redress proxx validate card.json'],
    exitCodes: { 2: 'the spec is invalid' },
    server: true,
    run: async (call) => (await load()).validate(call),
  },
  {
    usage: 'proxx submit <file>',
    summary: 'Submit a spec to proxx. One that is refused is recorded as a failed job.',
    arguments: { file: SPEC_FILE },
    examples: ['redress proxx submit card.json', 'redress proxx submit card.json --actor ann'],
    exitCodes: { 7: 'the spec was refused: the job is recorded as failed' },
    server: true,
    actor: true,
    run: async (call) => (await load()).submit(call),
  },
  {
    usage: 'proxx watch <folder>',
    summary: 'Make a job of everything that is dropped into a folder, until Ctrl-C.',
    arguments: { folder: 'where pending, taken, running, completed and failed are, or are made' },
    options: [
      {
        name: 'profile',
        value: 'NAME',
        kind: 'text',
        description: 'make jobs of media files and folders of them, too, with this profile',
      },
      {
        name: 'output',
        value: 'DIR',
        kind: 'text',
        description: 'where the outputs of media go; needed with --profile',
      },
      { name: 'naming', kind: 'text', description: 'names of the outputs of media', fallback: DEFAULT_NAMING },
      {
        name: 'settle',
        value: 'TIME',
        kind: 'text',
        description: 'take what has not changed for this long',
        fallback: '10s',
      },
      {
        name: 'done',
        kind: 'flag',
        description: 'take what has a file of its name with .done behind it, and nothing before',
      },
    ],
    examples: [
      'redress proxx watch /ingest',
      'redress proxx watch /ingest --profile proxy_h264_low --output /proxies --settle 30s',
    ],
    server: true,
    actor: true,
    run: async (call) => (await load()).watch(call),
  },
  {
    usage: 'proxx retry <id>',
    summary: 'Make a new job from a failed one, with the same spec or another. The failed one stays as it is.',
    arguments: { id: JOB_ID },
    options: [
      REASON,
      {
        name: 'spec',
        value: 'FILE',
        kind: 'text',
        description: 'another spec for the new job, or - for standard input; without it the same',
      },
      { name: 'again', kind: 'flag', description: 'retry again, even if it was already retried' },
    ],
    examples: [
      `redress proxx retry JOB --reason 'the disk has room again'`,
      `redress proxx retry JOB --spec card.json --reason 'another folder'`,
    ],
    exitCodes: { 7: 'the spec was refused: the new job is recorded as failed' },
    server: true,
    actor: true,
    run: async (call) => (await load()).retry(call),
  },
  {
    usage: 'proxx mark-failed <id>',
    summary: 'Say of a job whose worker is gone that it has failed.',
    arguments: { id: JOB_ID },
    options: [REASON],
    examples: [`redress proxx mark-failed JOB --reason 'its machine is gone for good'`],
    server: true,
    actor: true,
    run: async (call) => (await load()).markFailed(call),
  },
  {
    usage: 'proxx orphans',
    summary: 'List the jobs whose worker is silent, and that wait for a person.',
    options: [
      { name: 'wait', kind: 'flag', description: 'wait until there is one' },
      {
        name: 'timeout',
        value: 'TIME',
        kind: 'text',
        description: 'with --wait: no longer than this, 30s or 5m',
      },
    ],
    examples: ['redress proxx orphans', 'redress proxx orphans --wait --timeout 5m'],
    exitCodes: { 5: 'with --timeout: no job became an orphan in that time' },
    server: true,
    run: async (call) => (await load()).orphans(call),
  },
  {
    usage: 'proxx verify <id>',
    summary: 'Verify again what a complete job delivered.',
    arguments: { id: JOB_ID },
    examples: ['redress proxx verify JOB'],
    exitCodes: { 1: 'an output is not as it was delivered' },
    server: true,
    run: async (call) => (await load()).verify(call),
  },
]
