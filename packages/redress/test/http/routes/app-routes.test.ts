import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type Mount, startServer } from '../../../src/http/server.ts'
import { redress } from '../../../src/index.ts'

async function documentWith(mount: Mount): Promise<{ paths: Record<string, Record<string, object>> }> {
  const app = redress({ store: 'sqlite::memory:' })
  const server = await startServer({ app, port: 0, auth: 'none', mounts: [mount] })
  onTestFinished(async () => {
    await server.stop({ graceMs: 0 })
    await app.stop()
  })
  await server.ready
  return (await fetch(`${server.url}/openapi.json`)).json() as never
}

test('a described route of an app has its parameters, body and answers in the document', async () => {
  const { paths } = await documentWith((server) => {
    const api = {
      summary: 'Shrink a thumb.',
      description: 'Needs the role operator.',
      query: z.object({ size: z.coerce.number().min(1), fast: z.string().optional() }),
      headers: { 'Idempotency-Key': 'sending twice makes one' },
      body: { json: z.object({ file: z.string() }), types: ['image/png'] },
      answers: { 201: { description: 'The thumb.', json: z.object({ id: z.string() }), types: ['text/html'] } },
    }
    server.post('/thumbs/:id/shrink', { config: { api } }, async () => ({}))
  })
  expect(paths['/thumbs/{id}/shrink']?.post).toEqual({
    operationId: 'post-thumbs-id-shrink',
    summary: 'Shrink a thumb.',
    description: 'Needs the role operator.',
    tags: ['thumbs'],
    parameters: [
      { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
      { name: 'size', in: 'query', required: true, schema: expect.objectContaining({ minimum: 1 }) },
      { name: 'fast', in: 'query', required: false, schema: { type: 'string' } },
      expect.objectContaining({ name: 'Idempotency-Key', in: 'header', description: 'sending twice makes one' }),
    ],
    requestBody: {
      required: true,
      content: {
        'application/json': { schema: expect.objectContaining({ required: ['file'] }) },
        'image/png': { schema: {} },
      },
    },
    responses: {
      201: {
        description: 'The thumb.',
        content: {
          'application/json': { schema: expect.objectContaining({ required: ['id'] }) },
          'text/html': { schema: {} },
        },
      },
      default: { $ref: '#/components/responses/AppRefused' },
    },
  })
})

test('a route without a description is listed by its method and path, and a public one needs no sign-in', async () => {
  const { paths } = await documentWith((server) => {
    server.get('/bare/:id', async () => ({}))
    server.route({ method: ['PUT', 'DELETE'], url: '/bare/:id', handler: async () => ({}) })
    server.get('/open/*', { config: { api: { summary: 'Files.', isPublic: true } } }, async () => ({}))
  })
  expect(paths['/bare/{id}']).toMatchObject({
    get: { summary: 'GET /bare/{id}', parameters: [{ name: 'id', in: 'path' }] },
    put: { summary: 'PUT /bare/{id}' },
    delete: { summary: 'DELETE /bare/{id}' },
  })
  expect(Object.keys(paths['/bare/{id}'] ?? {})).not.toContain('head')
  expect(paths['/open/{path}']?.get).toMatchObject({ security: [] })
})
