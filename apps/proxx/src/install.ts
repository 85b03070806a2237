import { warnWithoutPrograms } from '@redress/shared/media/programs'
import type { App } from 'redress'
import type { InstalledApp, Surroundings } from 'redress/http'
import type { Desk } from './desk.ts'
import { JobFiles } from './job-file.ts'
import { declareChannels } from './notices.ts'
import { type Alarm, alarmOf } from './policy.ts'
import { proxxRoutes } from './routes.ts'
import { readSettings } from './settings.ts'
import { locksLetGo } from './transcode/lock.ts'
import { declareTranscode } from './transcode/transcode.ts'

const PAGE = '/proxx'

/** Declares proxx on an app and returns its parts. A process that only reads a store does not change its alarm. */
export function openDesk(app: App, { home, env, log }: Surroundings, inForce: Alarm | null = null): Desk {
  const settings = readSettings(env, home)
  const files = new JobFiles(app, settings.jobs, log)
  declareTranscode(app, { settings, alarm: inForce ?? alarmOf(settings), files, log, nowMs: Date.now })
  declareChannels(app, settings)
  return { app, settings, files, log }
}

export function install(app: App, surroundings: Surroundings): InstalledApp {
  const desk = openDesk(app, surroundings)
  const routes = proxxRoutes(desk)
  return {
    page: PAGE,
    async mount(server, tools) {
      // Without roots there is nothing here for owners.
      if (desk.settings.roots !== null) tools.welcomeOwners(PAGE)
      await routes(server, tools)
      desk.files.follow()
    },
    async start() {
      desk.files.follow()
      await warnWithoutPrograms(surroundings.log)
    },
    async stop() {
      await locksLetGo()
      await desk.files.stop()
    },
  }
}
