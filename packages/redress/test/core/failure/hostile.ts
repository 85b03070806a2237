/** Values that bite: each is thrown by somebody, somewhere. */
export const hostile: [string, unknown][] = (() => {
  const revoked = Proxy.revocable({}, {})
  revoked.revoke()
  const refuse = () => {
    throw new Error('refused')
  }
  const handler = new Proxy({}, { get: () => refuse })
  const selfCaused = new Error('loop')
  selfCaused.cause = selfCaused
  const bare = Object.create(null)
  const getters = Object.defineProperties(
    {},
    Object.fromEntries(['name', 'message', 'stack', 'cause', 'code', 'response'].map((key) => [key, { get: refuse }])),
  )
  return [
    ['undefined', undefined],
    ['null', null],
    ['a string', 'boom'],
    ['an empty string', ''],
    ['a number', Number.NaN],
    ['a BigInt', 3n],
    ['a symbol', Symbol('s')],
    ['a function', () => 1],
    ['a frozen object', Object.freeze({ code: 'X' })],
    ['an object without prototype', bare],
    ['an array', [1, 2]],
    ['throwing getters', getters],
    ['a Proxy that throws on everything', new Proxy({}, handler)],
    ['a function Proxy that throws', new Proxy(() => 1, handler)],
    ['a revoked Proxy', revoked.proxy],
    ['an error caused by a revoked Proxy', new Error('x', { cause: revoked.proxy })],
    ['an error that causes itself', selfCaused],
    [
      'an endless chain',
      new Proxy(new Error('x'), { get: (_, key) => (key === 'cause' ? new Error('again') : undefined) }),
    ],
    ['an endless list of errors', { errors: new Proxy([], { get: () => 1e9 }) }],
    ['wrong types everywhere', { name: 1, message: {}, stack: [], code: {}, status: 'x', response: 3, stderr: {} }],
    ['a promise', Promise.resolve(1)],
    ['no message', new AggregateError([new Error('inner')])],
  ]
})()
