import { z } from 'zod'
import { ERRORS, type ErrorCode } from '../../core/errors.ts'

const errorFields = z.object({
  code: z.enum(Object.keys(ERRORS) as ErrorCode[]),
  message: z.string(),
  action: z.string().describe('What can be done about it.'),
  jobId: z.string().exactOptional(),
  problems: z.array(z.string()).exactOptional(),
  incident: z.string().describe('Under this id the log of the server has the cause.').exactOptional(),
})

/** The format in which every route refuses. */
export const errorAnswerSchema = z.object({ error: errorFields })
export type ErrorAnswer = z.infer<typeof errorAnswerSchema>

/** The codes of an app are its own. */
export const appErrorAnswerSchema = z.object({
  error: errorFields
    .omit({ incident: true })
    .partial({ action: true })
    .extend({ code: z.string().describe('A code of the app, or of the table of errors.') }),
})
