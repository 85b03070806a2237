import { addAssets } from '@redress/shared/pages'
import { described } from '@redress/shared/routes'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type App, type Log, RedressError } from 'redress'
import type { Caller, FindCaller } from 'redress/http'
import { API } from '../api.ts'
import type { Files } from '../files.ts'
import type { Received } from '../receive.ts'
import { ownerOf } from '../session.ts'
import type { Settings } from '../settings.ts'
import { type NoticeName, noticeNamed, noticeOfError, noticeOfRefusal } from './notices.ts'
import { Conversions, serviceNow } from './reader.ts'
import { banner, convertPage, row } from './view.ts'

export interface PageOptions {
  app: App
  settings: Settings
  files: Files
  log: Log
  /** For the body of an upload. */
  bodyMs: number
  findCaller: FindCaller
  /** Gives a stranger a name. */
  callerOf(request: FastifyRequest, reply: FastifyReply): Promise<Caller>
  receive(request: FastifyRequest, caller: Caller): Promise<Received>
}

const ACTS = ['retry', 'cancel'] as const

/** `/convert`: for people, with and without script. */
export function addPage(server: FastifyInstance, options: PageOptions): void {
  const { app, settings, files, log, bodyMs, findCaller, callerOf, receive } = options
  const addressOf = addAssets(server, {
    folder: new URL('./assets/', import.meta.url),
    path: '/convert/assets',
    names: ['convert.js', 'convert.css'],
  })
  const conversions = new Conversions(app, files)

  server.get('/convert', described(API.page), async (request, reply) => {
    const caller = await callerOf(request, reply)
    const { cursor, said, id, still } = queryOf(request)
    const [service, listed] = await Promise.all([
      serviceNow(app, files, log),
      conversions.page({ owner: ownerOf(caller), cursor, also: id }),
    ])
    const shown = {
      ...{ settings, service, listed },
      notice: noticeNamed(said),
      marked: id,
      isFirstPage: cursor === null,
      isReloading: still === null,
      isOperator: caller.role !== 'owner',
      script: addressOf('convert.js'),
      stylesheets: [addressOf('app.css'), addressOf('convert.css')],
    }
    return reply.type('text/html').header('cache-control', 'private, no-cache').send(convertPage(shown))
  })

  /** Changed rows, for the script of the page. */
  server.get('/convert/state', described(API.state), async (request, reply) => {
    const caller = await findCaller(request)
    if (caller === null) throw new RedressError('SIGN_IN_REQUIRED', 'Upload a file or sign in first.')
    const { cursor, since, id } = queryOf(request)
    const [service, listed] = await Promise.all([
      serviceNow(app, files, log),
      conversions.page({ owner: ownerOf(caller), cursor, since, also: id }),
    ])
    return reply.header('cache-control', 'no-store').send({
      timestamp: listed.timestamp,
      isActive: listed.isActive,
      banner: banner(service).text,
      rows: listed.conversions.map((conversion) => ({
        id: conversion.job.id,
        html: row(conversion, service).text,
      })),
    })
  })

  server.post('/convert', described(API.send, { bodyMs }), async (request, reply) => {
    const received = await receive(request, await callerOf(request, reply))
    if (received.kind === 'refused') return back(reply, { said: noticeOfRefusal(received), id: received.jobId })
    return back(reply, { ...(received.kind === 'twin' && { said: 'twin' }), id: received.jobId })
  })

  for (const act of ACTS) {
    server.post(`/convert/jobs/:id/${act}`, described(API[act]), async (request, reply) => {
      const caller = await callerOf(request, reply)
      const { id } = request.params as { id: string }
      const isScript = request.headers.accept === 'application/json'
      try {
        await app.performAs(asOwner(caller), `jobs.${act}`, { id, reason: 'from the page' })
      } catch (error) {
        const said = noticeOfError(error)
        if (said === null) throw error
        return isScript ? reply.send({ said: noticeNamed(said) }) : back(reply, { said })
      }
      return isScript ? reply.send({ said: null }) : back(reply, { id })
    })
  }
}

/** On this page every caller acts as an owner, on their own conversions only. */
const asOwner = (caller: Caller): Caller => ({ ...caller, role: 'owner', account: ownerOf(caller) })

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const SHAPES = {
  cursor: /^[1-9]\d{0,14}$/,
  said: /^[a-z-]{1,20}$/,
  id: ID,
  still: /^yes$/,
  since: /^[\dTZ:.-]{20,30}$/,
}

/** Ignores parameters that do not have the expected form. */
function queryOf(request: FastifyRequest): Record<keyof typeof SHAPES, string | null> {
  const given = request.query as Record<string, unknown>
  const read = (name: keyof typeof SHAPES): string | null => {
    const value = given[name]
    return typeof value === 'string' && SHAPES[name].test(value) ? value : null
  }
  return { cursor: read('cursor'), said: read('said'), id: read('id'), still: read('still'), since: read('since') }
}

/** Redirects after a form, so that a reload does not send the form again. */
function back(reply: FastifyReply, { said, id }: { said?: NoticeName; id?: string | undefined }): FastifyReply {
  const query = new URLSearchParams({ ...(said !== undefined && { said }), ...(id !== undefined && { id }) }).toString()
  return reply.redirect(`/convert${query === '' ? '' : `?${query}`}`, 303)
}
