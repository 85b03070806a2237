import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { FastifyInstance } from 'fastify'

const TYPES = { 'convert.js': 'text/javascript; charset=utf-8', 'convert.css': 'text/css; charset=utf-8' } as const

type AssetName = keyof typeof TYPES

/** Serves the files of the page; gives the address of each. */
export function addAssets(server: FastifyInstance): (name: AssetName) => string {
  const addresses = new Map<string, string>()
  for (const [name, type] of Object.entries(TYPES)) {
    const content = readFileSync(new URL(`./assets/${name}`, import.meta.url))
    const version = createHash('sha256').update(content).digest('base64url').slice(0, 12)
    addresses.set(name, `/convert/assets/${name}?v=${version}`)
    server.get(`/convert/assets/${name}`, async (request, reply) => {
      // Under the address that the page gives, it never changes.
      const isThisOne = (request.query as { v?: unknown }).v === version
      const caching = isThisOne ? 'public, max-age=31536000, immutable' : 'no-cache'
      return reply.type(type).header('cache-control', caching).send(content)
    })
  }
  return (name) => addresses.get(name) as string
}
