import type { JobHandler } from '../job-handlers.ts'

/**
 * What a job gets that names no type: resources are fetched as they were named. Copy it to a folder of your own
 * (FETCHBOX_HANDLERS) under the name of your type, and change what you need; each function may be left out.
 */
const sample: JobHandler = {
  buildTasks: ({ resources }) => resources,

  prepare({ headers = {} }) {
    const hasAccept = Object.keys(headers).some((name) => name.toLowerCase() === 'accept')
    return hasAccept ? {} : { headers: { ...headers, accept: '*/*' } }
  },

  finalize: ({ resourcesCompleted, resourcesTotal, bytes }) => ({
    summary: `${resourcesCompleted} of ${resourcesTotal} resources, ${bytes} bytes`,
  }),
}

export default sample
