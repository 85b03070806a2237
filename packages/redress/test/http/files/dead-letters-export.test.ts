import { expect, test } from 'vitest'
import { readTasks } from '../../../../../test/support/dead-letter-tasks.ts'
import { makeWorld } from '../world.ts'

test('dead letters are exported to those who may list them, with the filters of the list', async () => {
  const world = await makeWorld()
  const { deadLetters } = (await world.ask('/api/dead-letters', { as: 'viewer' })).json
  expect(deadLetters.length).toBeGreaterThan(0)
  const path = '/api/dead-letters/export'

  const lines = await world.ask(path, { as: 'viewer' })
  expect(lines.headers).toMatchObject({
    'content-type': 'application/x-ndjson; charset=utf-8',
    'content-disposition': 'attachment; filename="dead-letters.jsonl"',
    'cache-control': 'no-store',
  })
  expect(
    lines.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toEqual(deadLetters)

  const answer = await fetch(`${world.server.url}${path}?format=protobuf&code=${deadLetters[0].failure.code}`, {
    headers: { authorization: `Bearer ${world.tokens.viewer}` },
  })
  expect(answer.headers.get('content-type')).toContain('messageType="redress.v1.DeadLetterTask"')
  const tasks = await readTasks(new Uint8Array(await answer.arrayBuffer()))
  expect(tasks[0]).toMatchObject({ offset: deadLetters[0].offset, failureCode: deadLetters[0].failure.code })

  for (const [caller, status] of [
    ['stranger', 401],
    ['owner', 403],
    ['scoped', 403],
  ] as const) {
    expect((await world.ask(path, { as: caller })).status, caller).toBe(status)
  }
  for (const query of ['format=xml', 'after=3', 'limit=1', 'nonsense=1', 'code=A&code=B', 'since=soon']) {
    const { status, json } = await world.ask(`${path}?${query}`, { as: 'viewer' })
    expect([query, status, typeof json?.error?.code]).toEqual([query, 400, 'string'])
  }
})
