import { resolve } from 'node:path'
import type { S3Credentials } from 'redress'

type Environment = Readonly<Record<string, string | undefined>>

/** A folder, or the address of an object store. */
export const storeUrl = (given: string): string => (/^(s3|file):/.test(given) ? given : `file:${resolve(given)}`)

/** What an object store is opened with; a folder needs nothing. */
export function s3Credentials(env: Environment): S3Credentials | undefined {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = env
  if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) return undefined
  return {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    ...(AWS_SESSION_TOKEN && { sessionToken: AWS_SESSION_TOKEN }),
  }
}
