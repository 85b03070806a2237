import type { OperationName } from '../../operations/catalog.ts'

/** Lines to copy, for the help of each command. */
export const EXAMPLES: Partial<Record<OperationName, readonly string[]>> = {
  'jobs.submit': [
    `redress submit sample.convert '{"file":"a.pdf","gateway":"down"}'`,
    'redress submit sample.convert @input.json --owner ann --delay 5m',
  ],
  'jobs.list': [
    'redress jobs list --status failed --since 2h',
    'redress jobs list --q 01901234',
    'redress jobs list --type sample.convert --json',
  ],
  'jobs.count': ['redress jobs count --code GW_5XX --since 1d'],
  'jobs.logs': ['redress jobs logs JOB --follow', 'redress jobs logs JOB --tail 20 --attempt 2'],
  'jobs.retry': [
    `redress retry JOB --reason 'the gateway is back'`,
    `redress retry JOB --reason 'disk was full' --input '{"file":"a.pdf"}'`,
  ],
  'schedules.upsert': [
    `redress schedules upsert report:customer-17 --job report --every 90s --reason 'the customer asked for it'`,
    `redress schedules upsert nightly --job report --cron '0 3 * * *' --timezone Europe/Berlin --reason 'new'`,
  ],
  'schedules.pause': [`redress schedules pause nightly --reason 'the ledger is being moved'`],
  'schedules.trigger': [`redress schedules trigger nightly --reason 'the run of last night was incomplete'`],
  'dead-letters.list': [
    'redress dead-letters list --type sample.convert --since 2h',
    'redress dead-letters list --replayed no --json',
  ],
  'dead-letters.replay': [
    `redress dead-letters replay 17 --reason 'the gateway is back'`,
    `redress dead-letters replay 17 --reason 'wrong file' --input '{"file":"b.pdf"}'`,
  ],
  'dead-letters.replay-matching': [
    `redress dead-letters replay-matching --code GW_5XX --rate 5/s --canary 10 --reason 'the gateway is back'`,
  ],
  'dead-letters.purge': [
    `redress dead-letters purge --until 90d --replayed yes --dry-run --reason 'old and done'`,
    `redress dead-letters purge 17 --reason 'a test of ours'`,
  ],
  'replays.plan': [
    `redress replays plan --code GW_5XX --since 2h --reason 'the gateway is back'`,
    `redress replays plan --type sample.convert --patch '{"gateway":"up"}' --canary 10 --rate 90/m --reason 'moved'`,
  ],
  'batches.list': ['redress batches list --state partial', 'redress batches list --owner ann --json'],
  'batches.retry-failed': [`redress batches retry BATCH --reason 'the gateway is back'`],
  'policy.preview': [
    'redress policy preview sample.convert',
    'redress policy preview sample.convert --failures GW_5XX,crash,ok --seed 7',
  ],
  'activity.show': ['redress activity', 'redress activity --minutes 1440 --type sample.convert --json'],
  'tokens.create': [
    'redress tokens create --name ci --role operator',
    'redress tokens create --name mirror --role owner --account ann --scopes jobs.list,jobs.show --expires never',
  ],
  'sign-in-links.create': ['redress sign-in', 'redress sign-in --role operator --account ann --for 1h'],
  'jobs.reschedule': [
    `redress jobs reschedule JOB --delay 2h --reason 'the gateway is down until noon'`,
    `redress jobs reschedule JOB --at 2026-01-31T08:00Z --reason 'after the release'`,
  ],
  'jobs.promote': [`redress jobs promote JOB --reason 'the gateway is back'`],
  'jobs.reprioritise': [`redress jobs reprioritise JOB 10 --reason 'the customer waits'`],
  'jobs.replace-input': [`redress jobs replace-input JOB '{"file":"b.pdf"}' --reason 'wrong file'`],
  'jobs.delete': [`redress jobs delete JOB --reason 'personal data'`],
  'jobs.mark-failed': [`redress jobs mark-failed JOB --reason 'its machine is gone for good'`],
}
