import type { FastifyRequest } from 'fastify'

/** Whether a browser asks, for somebody who reads: one address answers with a page or with JSON. */
export const wantsPage = ({ headers }: FastifyRequest): boolean => headers.accept?.includes('text/html') ?? false

/** What a form of a page says; null for what a program sent. */
export function formFields({ headers, body }: FastifyRequest): Record<string, string> | null {
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false
  return isForm ? ((body ?? {}) as Record<string, string>) : null
}
