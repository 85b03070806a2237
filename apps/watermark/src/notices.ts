import type { App, BatchView, Notice } from 'redress'
import type { MountTools } from 'redress/http'
import { email, type Mail, renderNotice, webhook } from 'redress/notify'
import { ownerOf } from './access.ts'
import { findCampaign, findToken } from './campaigns/campaigns.ts'
import { campaignState } from './campaigns/view.ts'
import { MARK_TYPES } from './copies/mark-job.ts'
import { MAIL, WEBHOOK } from './policy.ts'
import type { Rows } from './rows/rows.ts'
import type { Settings } from './settings.ts'

/** Mails to owners (W35, W36) and the webhook `campaign_ready` (W53), where the settings have them. */
export function declareChannels(app: App, rows: Rows, { mail, webhook: hook, publicUrl }: Settings): void {
  if (mail !== null) {
    app.channel(
      MAIL,
      email({
        ...mail,
        to: (notice) => (notice.kind === 'test' ? mail.from : addressOf(app, notice)),
        render: (notice) => mailFor(rows, notice, publicUrl),
      }),
    )
  }
  if (hook !== null) {
    app.channel(
      WEBHOOK,
      webhook({
        url: (notice) => (notice.kind === 'test' || hasResult(notice) ? hook.url : null),
        // It is the operator's own word, wherever it leads.
        outbound: { allow: [new URL(hook.url).host] },
        secrets: [hook.secret],
        body: campaignReady,
      }),
    )
  }
}

/**
 * A campaign that ended before all its copies were made has no result to announce. The person who stopped it, or set
 * its end, knows.
 */
const hasResult = (notice: Notice): boolean => notice.kind === 'settled' && notice.batch.cancelled === 0

/** Success is announced by the webhook only; the three mails are about failures. */
function isMailed(notice: Notice): boolean {
  if (notice.kind === 'failed') return notice.failure.code !== 'CAMPAIGN_ENDED'
  return notice.kind === 'settled' && hasResult(notice) && notice.batch.state !== 'complete'
}

async function addressOf(app: App, notice: Notice): Promise<string | null> {
  if (!isMailed(notice)) return null
  const owner = accountOf(notice)
  const { accounts } = await app.perform('accounts.list', {})
  const account = accounts.find(({ name }) => name === owner)
  return account === undefined || account.disabledAt !== null ? null : account.email
}

const accountOf = (notice: Notice): string | null =>
  notice.kind === 'failed' ? notice.job.owner : notice.kind === 'settled' ? notice.batch.owner : null

async function mailFor(rows: Rows, notice: Notice, publicUrl: string | null): Promise<Mail> {
  const greeting = `Hello ${accountOf(notice) ?? ''},`
  const look = (id: string) =>
    publicUrl === null ? 'Open the campaign to retry.' : `Open the campaign to retry: ${publicUrl}/campaigns/${id}`
  if (notice.kind === 'failed') {
    const { id, batch } = notice.job
    const name = batch?.name ?? 'A campaign'
    const recipient = (await findToken(rows, id))?.recipient_name ?? 'a recipient'
    const said = `the copy of "${name}" for ${recipient} could not be made.`
    const text = [greeting, said, notice.failure.message, look(batch?.id ?? '')].join('\n\n')
    return { subject: `${name}: the copy for ${recipient} failed`, text }
  }
  if (notice.kind !== 'settled') return renderNotice(notice)
  const { id, name: batchName, complete, failed, state } = notice.batch
  const name = (await findCampaign(rows, id, null))?.name ?? batchName
  const isPartial = state === 'partial'
  const said = isPartial
    ? `of the copies of "${name}", ${complete} are ready and ${failed} failed.`
    : `none of the ${failed} copies of "${name}" could be made.`
  const subject = `${name}: ${isPartial ? (failed === 1 ? '1 copy' : `${failed} copies`) : 'all copies'} failed`
  return { subject, text: [greeting, said, look(id)].join('\n\n') }
}

/** As receivers know it, with `state` added. */
function campaignReady(notice: Notice): unknown {
  if (notice.kind !== 'settled') return { type: notice.kind, timestamp: notice.at, data: {} }
  const { id, name, owner, state, total, complete, failed } = notice.batch
  const word = campaignState(state as BatchView['state'], { complete, failed })
  const data = { campaign_id: id, name, owner, state: word, total, completed: complete, failed }
  return { type: 'campaign_ready', timestamp: notice.at, data }
}

/** W34: sends `token_failed` to the topics of the token and its campaign when a copy has failed for good. */
export function mapEvents(app: App): void {
  const types: ReadonlySet<string> = new Set(MARK_TYPES)
  app.hub.map((event) => {
    if (event.subject !== null || event.kind !== 'failed' || !types.has(event.type)) return []
    const { jobId, batchId, failure } = event
    const topics = [`token:${jobId}`, ...(batchId === null ? [] : [`campaign:${batchId}`])]
    return [{ topics, event: 'token_failed', data: { token_id: jobId, error: failure?.message ?? '' } }]
  })
}

/** Owners hear of their own. */
export function allowOwnersToListen({ letHear }: Pick<MountTools, 'letHear'>, rows: Rows): void {
  letHear('campaign', async (caller, id) => (await findCampaign(rows, id, ownerOf(caller))) !== null)
  letHear('token', async (caller, id) => {
    const token = await findToken(rows, id)
    return token !== null && (await findCampaign(rows, token.campaign_id, ownerOf(caller))) !== null
  })
}
