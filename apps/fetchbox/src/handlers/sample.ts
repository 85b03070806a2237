import type { JobHandler } from '../job-handlers.ts'

/**
 * The handler of jobs without a type: it fetches the resources as given. To write your own, copy it to your folder of
 * handlers (FETCHBOX_HANDLERS) under the name of your job type, and change it. Each function is optional.
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
