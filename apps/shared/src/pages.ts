import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Html, html, type RouteDescription } from 'redress/http'
import { described } from './routes.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/** The stylesheet and the scripts that all pages share. */
const STYLE = 'app.css'
const COMMON = [STYLE, 'live.js', 'times.js']
const COMMON_FOLDER = new URL('./assets/', import.meta.url)

interface AssetsOptions<Name extends string> {
  /** Where the files are: `new URL('./assets/', import.meta.url)`. */
  folder: URL
  /** Under which they are served: '/convert/assets'. */
  path: string
  names: readonly Name[]
}

/** Serves the files of an app's pages, beside what they have in common; gives the address of each. */
export function addAssets<Name extends string>(
  server: FastifyInstance,
  { folder, path, names }: AssetsOptions<Name>,
): (name: Name | typeof STYLE) => string {
  const addresses = new Map<string, string>()
  for (const name of [...COMMON, ...names]) {
    const content = readFileSync(new URL(name, COMMON.includes(name) ? COMMON_FOLDER : folder))
    const version = createHash('sha256').update(content).digest('base64url').slice(0, 12)
    addresses.set(name, `${path}/${name}?v=${version}`)
    const type = TYPES[extname(name)] as string
    server.get(`${path}/${name}`, described(fileOf(name, type)), async (request, reply) => {
      // Under the address that the page gives, it never changes.
      const isThisOne = (request.query as { v?: unknown }).v === version
      const caching = isThisOne ? 'public, max-age=31536000, immutable' : 'no-cache'
      return reply.type(type).header('cache-control', caching).send(content)
    })
  }
  return (name) => addresses.get(name) as string
}

const fileOf = (name: string, type: string): RouteDescription => ({
  summary: `The file ${name} of the pages.`,
  isPublic: true,
  answers: { 200: { description: 'The file.', types: [type] } },
})

export const stylesheetLinks = (addresses: readonly string[]): Html =>
  html`${addresses.map((address) => html`<link rel="stylesheet" href="${address}">`)}`

const UNITS = ['KB', 'MB', 'GB', 'TB']

/** As file managers count: in steps of 1,024. */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`
  const step = Math.min(UNITS.length, Math.floor(Math.log2(bytes) / 10))
  const size = bytes / 1024 ** step
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${UNITS[step - 1]}`
}

/** Only the browser knows the time zone of the reader: a script replaces the text. */
export const clockTime = (iso: string): Html =>
  html`<time datetime="${iso}" data-as="clock">${iso.slice(11, 16)} UTC</time>`

export const ageOf = (iso: string): Html => html`<time datetime="${iso}" data-as="age">${dayAndTime(iso)}</time>`

export const dateOf = (iso: string): Html => html`<time datetime="${iso}" data-as="date">${dayAndTime(iso)}</time>`

/** To the second, to compare with a log. */
export const momentOf = (iso: string): Html =>
  html`<time datetime="${iso}" data-as="moment">${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC</time>`

const dayAndTime = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`

/** Whether a browser asks for a page: the same URL also answers with JSON. */
export const wantsPage = ({ headers }: FastifyRequest): boolean => headers.accept?.includes('text/html') ?? false

/** The fields of a submitted form; null if a program sent the request. */
export function formFields({ headers, body }: FastifyRequest): Record<string, string> | null {
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false
  return isForm ? ((body ?? {}) as Record<string, string>) : null
}
