import { warnWithoutPrograms } from '@redress/shared/media/programs'
import { secretIn } from '@redress/shared/secret'
import type { AppModule } from 'redress/http'
import { finishPublishing, type PublishingOptions } from './campaigns/lifecycle.ts'
import { openLinks } from './copies/links.ts'
import { declareMarking } from './copies/mark-job.ts'
import { declareDetecting } from './detection/detect-job.ts'
import { openFiles } from './files.ts'
import { ffmpegMedia, type Media } from './media.ts'
import { allowOwnersToListen, declareChannels, mapEvents } from './notices.ts'
import { channelsOf } from './policy.ts'
import { declareRetention } from './retention-job.ts'
import { watermarkRoutes } from './routes.ts'
import { copyRows } from './rows/copy.ts'
import { openRows } from './rows/rows.ts'
import { TABLES } from './rows/tables.ts'
import { readSettings } from './settings.ts'

export interface WatermarkOptions {
  /** The media implementation; ffmpeg by default. */
  media?: Media
  /** Where the jobs are, for an app that was handed a store and cannot say it. */
  location?: string
}

const PAGE = '/campaigns'
const KEY_USE = {
  what: 'the key of links and invisible marks',
  knob: 'WATERMARK_SECRET',
  loss: 'With another one, links that were sent lead nowhere and no copy made before is recognised.',
}

/** The app: a marked copy and a link for each recipient, and the search for the recipient of a leaked copy. */
export function watermarkApp(given: WatermarkOptions = {}): AppModule {
  return {
    name: 'watermark',
    copyRows: (from, to) => copyRows(TABLES, from, to),
    async install(app, { home, env, log }) {
      const settings = readSettings(env, home)
      const location = given.location ?? app.location
      const rows = openRows({ location, tables: TABLES, storeOpened: () => app.store() })
      const files = await openFiles(settings, env, log)
      const links = openLinks(settings.secret ?? secretIn(home, 'watermark.key', KEY_USE))
      const media = given.media ?? ffmpegMedia(settings)
      const { markKey, markKeyId } = links
      const marking = { rows, files, media, settings, markKey, markKeyId }
      const marks = declareMarking(app, marking)
      const detect = declareDetecting(app, marking)
      declareChannels(app, rows, settings)
      mapEvents(app)
      const notify = channelsOf(settings).settled
      const publishing: PublishingOptions = { app, rows, marks, notify, markKeyId, log }
      declareRetention(app, { rows, files, log, finishPublishing: () => finishPublishing(publishing) })
      const routes = watermarkRoutes({ ...publishing, files, media, settings, links, detect })
      return {
        page: PAGE,
        async mount(server, tools) {
          allowOwnersToListen(tools, rows)
          tools.welcomeOwners(PAGE)
          await routes(server, tools)
        },
        async start() {
          if (given.media === undefined) await warnWithoutPrograms(log)
          await finishPublishing(publishing)
        },
        async stop() {
          await rows.close()
          await Promise.all([files.assets.close(), files.copies.close()])
        },
      }
    },
  }
}

export default watermarkApp()
