import { smtpOf } from '@redress/shared/smtp'
import type { App } from 'redress'
import { email, webhook } from 'redress/notify'
import { MAIL, WEBHOOK } from './policy.ts'
import type { Settings } from './settings.ts'

/** P49, P55: each failure and each orphan is told on its own, where the settings say to whom. */
export function declareChannels(app: App, { mail, webhook: hook }: Settings): void {
  if (mail !== null) app.channel(MAIL, email({ smtp: smtpOf(mail.smtp), from: mail.from, to: () => mail.to }))
  if (hook !== null) app.channel(WEBHOOK, webhook({ url: hook.url, secrets: [hook.secret] }))
}
