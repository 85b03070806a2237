import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type LogLine, Scene } from '../../../../../test/support/scene.ts'
import { outcomeLog } from '../../../src/app/events/outcome-log.ts'
import { failureCodes } from '../../../src/core/failure/taxonomy.ts'
import { currentTrace, traceAttempt, traceSubmission, withinTrace } from '../../../src/tracing/tracing.ts'

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/

let scene: Scene
beforeEach(() => {
  scene = new Scene()
})
afterEach(() => scene.end())

describe('where an SDK is registered', () => {
  const exporter = new InMemorySpanExporter()
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] })
  const spans = (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name === name)
  const only = (name: string): ReadableSpan => {
    const [span, ...more] = spans(name)
    if (span === undefined || more.length > 0) throw new Error(`there are ${spans(name).length} spans ${name}`)
    return span
  }

  beforeEach(() => {
    exporter.reset()
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    trace.setGlobalTracerProvider(provider)
  })
  afterEach(() => {
    trace.disable()
    context.disable()
  })

  test('every attempt of a job is a child of its submission, and failing marks it', async () => {
    const codes = failureCodes({ SHUT: { fault: 'dependency', retry: 'transient', message: 'It is shut.' } })
    scene.app.job('knock', {
      queue: 'doors',
      codes,
      policy: { retry: { max: 3 } },
      run: (_: unknown, attempt) => (attempt.number === 1 ? attempt.fail('SHUT') : 'open'),
    })
    await scene.worker()
    const { id } = await scene.app.submit('knock', {})
    await scene.pass(0)
    await scene.pass(0)
    expect(await scene.status(id)).toBe('complete')

    const submission = only('redress.submit knock')
    expect(submission.kind).toBe(SpanKind.PRODUCER)
    expect(submission.attributes).toMatchObject({ 'redress.job.id': id, 'redress.job.type': 'knock' })
    const [first, second] = spans('redress.attempt knock') as [ReadableSpan, ReadableSpan]
    for (const attempt of [first, second]) {
      expect(attempt.kind).toBe(SpanKind.CONSUMER)
      expect(attempt.parentSpanContext).toMatchObject({ spanId: submission.spanContext().spanId, isRemote: true })
      expect(attempt.attributes).toMatchObject({ 'redress.job.id': id, 'redress.queue': 'doors' })
    }
    expect(first.attributes).toMatchObject({
      'redress.attempt': 1,
      'redress.outcome': 'retry',
      'redress.error_code': 'SHUT',
    })
    expect(first.status).toEqual({ code: SpanStatusCode.ERROR, message: 'SHUT' })
    expect(second.attributes).toMatchObject({ 'redress.attempt': 2, 'redress.outcome': 'complete' })
    expect(second.status.code).toBe(SpanStatusCode.UNSET)
  })

  test('the span is active in `run` and in `verify`, also after a wait, and the handler can pass it on by hand', async () => {
    const seen: (string | null)[] = []
    let passedOn: string | null = null
    scene.app.job('look', {
      run: async (_: unknown, attempt) => {
        seen.push(currentTrace())
        await Promise.resolve()
        seen.push(currentTrace())
        passedOn = attempt.traceparent
      },
      verify: () => void seen.push(currentTrace()),
    })
    await scene.worker({ onOutcome: outcomeLog(scene.log) })
    await scene.app.submit('look', {})
    await scene.pass(0)
    const { fields } = scene.log.lines.find(({ message }) => message === 'complete') as LogLine
    expect(passedOn).toContain(`-${fields.trace_id}-`)
    expect(passedOn).toMatch(TRACEPARENT)
    expect(seen).toEqual([passedOn, passedOn, passedOn])
    expect(passedOn).toContain(only('redress.attempt look').spanContext().spanId)
  })

  test('a job without a trace begins one of its own, whatever was active when its worker took it', async () => {
    scene.app.job('alone', { run: () => 'done' })
    await scene.worker()
    trace.disable()
    const { id } = await scene.app.submit('alone', {})
    trace.setGlobalTracerProvider(provider)
    await provider.getTracer('test').startActiveSpan('a program', async (span) => {
      await scene.pass(0)
      span.end()
    })
    expect(await scene.status(id)).toBe('complete')
    expect(only('redress.attempt alone').parentSpanContext).toBeUndefined()
  })

  test('what a handler submits belongs to its trace; many jobs of one submission share its span', async () => {
    scene.app.job('parent', { run: () => scene.app.submitMany('child', [{}, {}]) })
    scene.app.job('child', { run: () => undefined })
    await scene.worker()
    await scene.app.submit('parent', {})
    await scene.pass(0)
    await scene.pass(0)
    const submission = only('redress.submit child')
    expect(submission.parentSpanContext?.spanId).toBe(only('redress.attempt parent').spanContext().spanId)
    expect(submission.attributes).toMatchObject({ 'messaging.batch.message_count': 2 })
    expect(spans('redress.attempt child').map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
      submission.spanContext().spanId,
      submission.spanContext().spanId,
    ])
  })

  test('an attempt whose lease was lost says so once', async () => {
    scene.app.job('long', {
      policy: { orphan: 'requeue', lease: { ttl: '30s' }, timeout: { attempt: null } },
      run: () => new Promise(() => undefined),
    })
    const worker = await scene.worker()
    await scene.app.submit('long', {})
    await scene.pass(0)
    scene.clock.block(60_000)
    await (await scene.newApp().makeWorker()).maintain()
    await worker.tick()
    expect(only('redress.attempt long').attributes['redress.outcome']).toBe('lost')
  })

  test('a refused submission is an error of its span, without the input', async () => {
    scene.app.job('strict', {
      admit: (_input, { fail }) => fail('UNKNOWN', { detail: 'the card 4111111111111111' }),
      run: () => undefined,
    })
    await expect(scene.app.submit('strict', {})).rejects.toMatchObject({ code: 'SUBMISSION_REFUSED' })
    const span = only('redress.submit strict')
    expect(span.status).toEqual({ code: SpanStatusCode.ERROR, message: 'SUBMISSION_REFUSED' })
    expect(JSON.stringify([span.attributes, span.status, span.events])).not.toContain('4111')
  })

  test('a submission through a door is traced as one of a program is, and only under the name of a type', async () => {
    scene.app.job('plain', { run: () => undefined })
    const caller = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    await withinTrace(caller, () => scene.app.perform('jobs.submit', { type: 'plain' }))
    expect(only('redress.submit plain').spanContext().traceId).toBe('0af7651916cd43dd8448eb211c80319c')
    await expect(scene.app.perform('jobs.submit', { type: 'no name\n' })).rejects.toMatchObject({ exitCode: 3 })
    expect(exporter.getFinishedSpans()).toHaveLength(1)
  })

  test.each(['', 'nonsense', '00-00000000000000000000000000000000-0000000000000000-01', '01-a-b-00'])(
    'a traceparent that is none (%j) begins no trace',
    (text) => {
      expect(withinTrace(text, currentTrace)).toBeNull()
    },
  )

  test('background work belongs to no trace, although it was set up inside one', async () => {
    const traces: (string | null)[] = []
    const duty = { name: 'tick', everyMs: 1_000, run: async () => void traces.push(currentTrace()) }
    await provider.getTracer('test').startActiveSpan('boot', async (span) => {
      const worker = await scene.worker({ duties: [duty] })
      await worker.start()
      span.end()
    })
    await scene.pass(1_000)
    expect(traces).toEqual([null])
  })
})

describe('where none is', () => {
  test('nothing is made, and the trace that a job brings is still there to be passed on', async () => {
    expect(traceAttempt({ jobId: 'a', type: 'b', queue: 'c', attempt: 1, trace: null })).toBeNull()
    const submitted = Promise.resolve([])
    expect(
      traceSubmission(
        'b',
        () => submitted,
        () => ({}),
      ),
    ).toBe(submitted)
    expect(currentTrace()).toBeNull()

    const kept = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const seen: (string | null)[] = []
    scene.app.job('plain', { run: (_: unknown, attempt) => void seen.push(attempt.traceparent) })
    await scene.worker()
    const store = await scene.app.store()
    const job = { type: 'plain', payload: '{}', owner: null, priority: 0, delayMs: 0, dedupe: null, retriedFrom: null }
    const bare = { ...job, rejected: null, batch: null, limitKey: null }
    await store.submit({ jobs: [{ ...bare, id: crypto.randomUUID(), trace: kept }] })
    await scene.app.submit('plain', {})
    await scene.pass(0)
    expect(seen).toEqual([kept, null])
  })
})
