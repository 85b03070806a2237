import { z } from 'zod'
import type { App } from '../../app/app.ts'
import { rule } from '../../core/failure/classify.ts'
import { failureCodes } from '../../core/failure/taxonomy.ts'
import { exponential } from '../../core/policy/backoff.ts'
import type { AppModule } from '../../http/app-module.ts'

/** Two job types that fail on purpose, to try Redress without an app. */
export const sample: AppModule = {
  name: 'sample',
  install(app) {
    declareSample(app)
    return {}
  },
}

function declareSample(app: App): void {
  app.job('sample.convert', {
    input: z.object({
      file: z.string(),
      gateway: z.enum(['up', 'flaky', 'down', 'rejects', 'garbles', 'hangs', 'surprises']).default('up'),
    }),
    codes: failureCodes({
      GW_4XX: { fault: 'caller', retry: 'never', message: 'The converter does not take this file.' },
      GW_5XX: {
        fault: 'dependency',
        retry: 'transient',
        message: 'The converter kept failing. Retry later.',
        waiting: 'The converter has a problem. We will retry shortly.',
      },
    }),
    classify: [rule.http({ status: '5xx' }, 'GW_5XX'), rule.http({ status: '4xx' }, 'GW_4XX')],
    policy: {
      retry: { max: 3, backoff: exponential('1s', { jitter: '500ms' }) },
      timeout: { attempt: '2s' },
      manualRetry: 'in-place',
      orphan: 'requeue',
      errors: 'latest',
    },
    run: async ({ file, gateway }, attempt) => {
      switch (gateway) {
        case 'flaky':
          if (attempt.number < 3) throw answer(502)
          break
        case 'down':
          // For as long as its policy tries. The attempt number only grows, so it is back when a person retries.
          if (attempt.number <= 3) throw answer(503)
          break
        case 'rejects':
          throw answer(415)
        case 'hangs':
          await new Promise((_, reject) => attempt.signal.addEventListener('abort', reject))
          break
        case 'surprises':
          throw new TypeError(`Cannot read properties of undefined (reading 'pages')`)
      }
      return { xml: gateway === 'garbles' ? '' : `<document source="${file}"/>` }
    },
    verify: ({ xml }) => {
      if (xml === '') throw new Error('the converter answered with an empty document')
    },
  })

  app.job('sample.archive', {
    input: z.object({ file: z.string(), disk: z.enum(['ok', 'full']).default('ok') }),
    codes: failureCodes({ DISK_FULL: { fault: 'system', retry: 'never', message: 'The archive has no room left.' } }),
    classify: [rule.errno('ENOSPC', 'DISK_FULL')],
    // With the default policy it runs once, and a manual retry makes a new job.
    run: ({ file, disk }) => {
      if (disk === 'full') {
        throw Object.assign(new Error(`ENOSPC: no space left on device, write '${file}'`), { code: 'ENOSPC' })
      }
      return { archived: file }
    },
  })
}

/** An error as HTTP clients throw it. */
function answer(status: number): Error {
  return Object.assign(new Error(`the converter answered ${status}`), { status })
}
