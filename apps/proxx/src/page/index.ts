import { addAssets, stylesheetLinks, wantsPage } from '@redress/shared/pages'
import { described, type Refusal } from '@redress/shared/routes'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Caller, html, type MountTools, page } from 'redress/http'
import { callerOf, rightsOf } from '../access.ts'
import { API } from '../api.ts'
import type { Proxx } from '../operations.ts'
import { TYPE } from '../policy.ts'
import { PROFILES } from '../spec/profiles.ts'
import type { ProxxJob } from '../view.ts'
import { type Fields, type Outcome, type RefusedAct, submitForm } from './forms.ts'
import { type Addresses, framed, sendPage } from './frame.ts'
import { isUnderWay, jobPage, jobState, liveOfJob } from './job.ts'
import { jobList, listState, liveOfList } from './list.ts'
import { type Choice, FILTERS, Reader } from './reader.ts'
import { lookOf, titleOf } from './words.ts'

/** The HTML answers. Routes use them for browsers. */
export interface Pages {
  job(reply: FastifyReply, caller: Caller, job: ProxxJob, refused?: RefusedAct): Promise<FastifyReply>
  /** A form that was refused, or only checked, with everything that was typed. */
  submitAgain(reply: FastifyReply, caller: Caller, fields: Fields, outcome: Outcome): FastifyReply
  /** Status and headers are there already. */
  refused(reply: FastifyReply, refusal: Refusal): FastifyReply
}

interface PagesOptions {
  proxx: Proxx
  tools: MountTools
  /** The job that an address means, if it is the caller's to see. */
  seen(request: FastifyRequest, caller: Caller): Promise<ProxxJob>
}

export function addPages(server: FastifyInstance, { proxx, tools, seen }: PagesOptions): Pages {
  const { app, settings } = proxx
  const addressOf = addAssets(server, {
    folder: new URL('./assets/', import.meta.url),
    path: '/proxx/assets',
    names: ['proxx.js', 'proxx.css'],
  })
  const stylesheets = [addressOf('app.css'), addressOf('proxx.css')]
  const files: Addresses = { script: addressOf('proxx.js'), stylesheets }
  const reader = new Reader(proxx)

  server.get('/proxx', described(API.home), async (request, reply) => {
    const caller = await callerOf(tools, request)
    const choice = choiceOf(request)
    const listed = await reader.list(caller, choice)
    if (!wantsPage(request)) {
      const { orphans, jobs } = listed
      const nextCursor = choice.status === 'orphaned' ? orphans.nextCursor : jobs.nextCursor
      return { orphans: orphans.rows.map(({ job }) => job), jobs: jobs.rows.map(({ job }) => job), nextCursor }
    }
    const rights = rightsOf(caller, settings)
    const live = liveOfList(caller, `type:${TYPE}`, choice)
    // With orphans on the page, a person may be typing a reason.
    const isReloading = listed.orphans.rows.length === 0 && listed.jobs.rows.some(({ job }) => isUnderWay(job))
    const frame = { title: 'Proxies', caller, live, isReloading, isBelowList: false }
    return sendPage(reply, framed(frame, jobList(listed, choice, rights), files))
  })

  server.get('/proxx/state', described(API.homeState), async (request, reply) => {
    const caller = await callerOf(tools, request)
    const listed = await reader.list(caller, choiceOf(request))
    return reply.header('cache-control', 'no-store').send(listState(listed, rightsOf(caller, settings)))
  })

  server.get('/proxx/jobs/:id/state', described(API.jobState), async (request, reply) => {
    const caller = await callerOf(tools, request)
    const detail = await reader.detail(caller, await seen(request, caller))
    return reply.header('cache-control', 'no-store').send(jobState(detail, rightsOf(caller, settings)))
  })

  server.get('/proxx/new', described(API.newJob), async (request, reply) => {
    const caller = await callerOf(tools, request)
    // The engine refuses callers without the right, with its own message.
    if (!rightsOf(caller, settings).submit) {
      await app.performAs(caller, 'jobs.submit', { type: TYPE, input: {}, dryRun: true })
    }
    return sendSubmitForm(reply, caller, {}, null)
  })

  const sendSubmitForm = (reply: FastifyReply, caller: Caller, fields: Fields, outcome: Outcome | null) => {
    const form = { id: app.newId(), fields, outcome, hasScripts: settings.scripts !== null }
    const frame = { title: 'New job', caller, live: null, isReloading: false, isBelowList: true }
    return sendPage(reply, framed(frame, submitForm(form), files))
  }

  return {
    async job(reply, caller, job, refused) {
      const detail = await reader.detail(caller, job)
      const rights = rightsOf(caller, settings)
      const isReloading = isUnderWay(job) && job.orphanedAt === null && refused === undefined
      const frame = {
        title: `${titleOf(job)}, ${lookOf(job)}`,
        caller,
        live: liveOfJob(job),
        isReloading,
        isBelowList: true,
      }
      return sendPage(reply, framed(frame, jobPage(detail, rights, refused ?? null), files))
    },

    submitAgain: sendSubmitForm,

    refused(reply, { message, action }) {
      const body = html`<div class="calm-page"><h1>${message}</h1><p>${action}</p><p><a href="/proxx">All jobs</a></p></div>`
      return reply.type('text/html').send(page(message, body, stylesheetLinks(stylesheets)))
    },
  }
}

/** Ignores parameters that do not have the expected form. */
function choiceOf(request: FastifyRequest): Choice {
  const { status, profile, cursor } = request.query as Record<string, unknown>
  return {
    status: FILTERS.find((one) => one === status) ?? null,
    profile: typeof profile === 'string' && PROFILES.has(profile) ? profile : null,
    cursor: typeof cursor === 'string' && /^[1-9]\d{0,15}$/.test(cursor) ? cursor : null,
  }
}
