import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../../..')

const FIXTURES = join(ROOT, 'packages/redress/test/processes/fixtures')
const KILL_LOOP = join(ROOT, 'bench/kill-loop')

/** Programs that tests start hundreds of times. */
export const PROGRAM_SOURCES = {
  actor: join(FIXTURES, 'actor.ts'),
  'full-disk': join(FIXTURES, 'full-disk.ts'),
  notifier: join(FIXTURES, 'notifier.ts'),
  opener: join(FIXTURES, 'opener.ts'),
  shop: join(FIXTURES, 'shop.ts'),
  signer: join(FIXTURES, 'signer.ts'),
  'proxx-watcher': join(ROOT, 'apps/proxx/test/watch/watcher.ts'),
  'kill-worker': join(KILL_LOOP, 'worker.ts'),
  'kill-submitter': join(KILL_LOOP, 'submitter.ts'),
} as const
