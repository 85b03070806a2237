import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { failureCodes, redress, rule } from '../../src/index.ts'

/** The compiler is the judge here: each `@ts-expect-error` fails the type check if the mistake compiles. */
const codes = failureCodes({ TOO_DARK: { fault: 'caller', retry: 'never', message: 'The picture is too dark.' } })

test('without a schema, what run says it takes is what may be submitted', () => {
  const app = redress({ store: 'sqlite::memory:' })
  const greet = app.job('greet', { run: ({ name }: { name: string }) => name })
  expectTypeOf(greet.submit).parameter(0).toEqualTypeOf<{ name: string }>()
  // @ts-expect-error the field is misspelt
  expectTypeOf(greet.submit).toBeCallableWith({ nam: 'ada' })
  expect(app.types).toEqual(['greet'])
})

test('with a schema, submit takes its input and run gets its output', () => {
  const app = redress({ store: 'sqlite::memory:' })
  const remind = app.job('remind', {
    input: z.object({ at: z.string().transform((text) => new Date(text)), times: z.number().default(1) }),
    run: ({ at, times }) => {
      expectTypeOf(at).toEqualTypeOf<Date>()
      expectTypeOf(times).toEqualTypeOf<number>()
      return { sent: times }
    },
    verify: (output) => expectTypeOf(output).toEqualTypeOf<{ sent: number }>(),
  })
  expectTypeOf(remind.submit).parameter(0).toEqualTypeOf<{ at: string; times?: number | undefined }>()
  expect(remind.name).toBe('remind')
})

test('a code that is not in the taxonomy does not compile, in a rule or in a handler', () => {
  const app = redress({ store: 'sqlite::memory:' })
  app.job('develop', {
    codes,
    classify: [rule.timeout('TOO_DARK'), rule.errno('ENOSPC', 'TIMEOUT')],
    run: (_, attempt) => {
      expectTypeOf(attempt.fail).toBeCallableWith('TOO_DARK')
      // @ts-expect-error no such code
      expectTypeOf(attempt.fail).toBeCallableWith('TO_DARK')
    },
  })
  app.job('staged', {
    codes,
    run: async (_, attempt) => {
      const pages = await attempt.stage('read', { max: 2, exhaustedCode: 'TOO_DARK' }, async (stage) => {
        expectTypeOf(stage.fail).toBeCallableWith('TOO_DARK')
        // @ts-expect-error no such code
        expectTypeOf(stage.fail).toBeCallableWith('TO_DARK')
        return 7
      })
      expectTypeOf(pages).toEqualTypeOf<number>()
      // @ts-expect-error no such code
      const options: Parameters<typeof attempt.stage>[1] = { exhaustedCode: 'TO_DARK' }
      return options
    },
  })
  const misspelt = () =>
    app.job('misspelt', {
      codes,
      // @ts-expect-error no such code
      classify: [rule.timeout('TO_DARK')],
      run: () => undefined,
    })
  expect(misspelt).toThrow(expect.objectContaining({ code: 'RULE_INVALID' }))
})
