import { apiReference, nameTable, pathOf } from './reference-api.ts'
import { page } from './reference-text.ts'

interface Subpath {
  about: string
  guide: string
}

/** What each subpath of the package is for. */
export const SUBPATHS: Readonly<Record<string, Subpath>> = {
  artifacts: {
    about: 'Files of jobs, stored by key in a folder or a bucket.',
    guide: 'jobs/artifacts',
  },
  http: {
    about: 'The server, and what the routes of an app are made of.',
    guide: 'operate/server',
  },
  metrics: {
    about: 'What a process counts for Prometheus, as `app.metrics` gives it.',
    guide: 'operate/metrics',
  },
  notify: {
    about: 'Channels for notices: mail and signed webhooks, and what a channel of your own is made of.',
    guide: 'failures/notices',
  },
  outbound: {
    about: 'Guarded requests to addresses that users chose.',
    guide: 'jobs/outbound',
  },
  programs: {
    about: 'Child processes with limits, whose failures can be classified.',
    guide: 'jobs/programs',
  },
  sse: {
    about: 'Live events as a stream for browsers, and the types of `app.hub`.',
    guide: 'operate/live-events',
  },
  store: {
    about: 'What a store does, for drivers of your own, and rows of an app beside it.',
    guide: 'jobs/transactional-submit',
  },
  testing: {
    about: 'A world for tests in which time and chance are yours, and the promises of a store.',
    guide: 'jobs/testing',
  },
}

export function exportsPage(): string {
  const reference = apiReference()
  const names = (subpath: string) => nameTable(reference[subpath] ?? [], pathOf(subpath).replace('docs/reference/', ''))
  return page(
    'Exports',
    `What \`import { ... } from 'redress'\` gives. Each name leads to its entry in the API reference, which is made from the types and their
comments. Everything else is in the subpaths below, so that a program loads only what it uses.`,
    names(''),
    ...Object.entries(SUBPATHS).flatMap(([subpath, { about, guide }]) => [
      `## redress/${subpath}`,
      `${about} See the [guide](../guides/${guide}.md).`,
      names(subpath),
    ]),
  )
}
