import { warnWithoutPrograms } from '@redress/shared/media/programs'
import { smtpOf } from '@redress/shared/settings'
import type { App } from 'redress'
import type { InstallContext, InstalledApp } from 'redress/http'
import { email, webhook } from 'redress/notify'
import { JobFiles } from './job-file.ts'
import type { Proxx } from './operations.ts'
import { type Alarm, alarmOf, MAIL, WEBHOOK } from './policy.ts'
import { proxxRoutes } from './routes.ts'
import { readSettings, type Settings } from './settings.ts'
import { releaseLocks } from './transcode/lock.ts'
import { declareTranscode } from './transcode/transcode-job.ts'

const PAGE = '/proxx'

/** Declares proxx on an app and returns its parts. A process that only reads a store does not change its alarm. */
export function openProxx(app: App, { home, env, log }: InstallContext, inForce: Alarm | null = null): Proxx {
  const settings = readSettings(env, home)
  const files = new JobFiles(app, settings.jobs, log)
  declareTranscode(app, { settings, alarm: inForce ?? alarmOf(settings), files, log, nowMs: Date.now })
  declareChannels(app, settings)
  return { app, settings, files, log }
}

export function install(app: App, installContext: InstallContext): InstalledApp {
  const proxx = openProxx(app, installContext)
  const routes = proxxRoutes(proxx)
  return {
    page: PAGE,
    async mount(server, tools) {
      // Without roots there is nothing here for owners.
      if (proxx.settings.roots !== null) tools.welcomeOwners(PAGE)
      await routes(server, tools)
      proxx.files.follow()
    },
    async start() {
      proxx.files.follow()
      await warnWithoutPrograms(installContext.log)
    },
    async stop() {
      await releaseLocks()
      await proxx.files.stop()
    },
  }
}

/** P49, P55: a separate notice for each failure and each orphan, to the configured recipients. */
export function declareChannels(app: App, { mail, webhook: hook }: Settings): void {
  if (mail !== null) app.channel(MAIL, email({ smtp: smtpOf(mail.smtp), from: mail.from, to: () => mail.to }))
  if (hook !== null) app.channel(WEBHOOK, webhook({ url: hook.url, secrets: [hook.secret] }))
}
