import { resolve } from 'node:path'
import { type Log, RedressError } from 'redress'
import { type ArtifactStore, artifactStore, type S3Credentials } from 'redress/artifacts'
import type { Environment } from './settings.ts'

/** A folder, or the address of an object store. */
export const storeUrl = (given: string): string => (/^(s3|file):/.test(given) ? given : `file:${resolve(given)}`)

/** The credentials of an object store; a folder needs none. */
function s3Credentials(env: Environment): S3Credentials | undefined {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = env
  if (!AWS_ACCESS_KEY_ID || !AWS_SECRET_ACCESS_KEY) return undefined
  return {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    ...(AWS_SESSION_TOKEN && { sessionToken: AWS_SESSION_TOKEN }),
  }
}

/** How much room must be left: past `soft` it is logged, past `hard` nothing more is taken. */
interface Space {
  soft: { bytesFreeMin: number }
  hard: { bytesFreeMin: number }
}

interface Opening {
  appName: string
  space: Space
  env: Environment
  log: Log
}

/** A store that says so when its disk fills up. */
export function openStore(url: string, { appName, space, env, log }: Opening): Promise<ArtifactStore> {
  return artifactStore({
    url,
    log,
    limits: space,
    credentials: s3Credentials(env),
    onPressure: (pressure, usage) => {
      if (pressure === 'ok') return
      log.warn({ event: 'disk_pressure', pressure, ...usage }, `the disk of ${appName} is filling up`)
    },
  })
}

/**
 * Opens a store for incoming files and one for results. The incoming store stops first, so that accepted files still
 * have room for their results.
 */
export async function openStores(sourcesUrl: string, productsUrl: string, opening: Opening) {
  const { soft, hard } = opening.space
  const sources = await openStore(sourcesUrl, opening)
  const space = { soft, hard: { bytesFreeMin: Math.floor(hard.bytesFreeMin / 4) } }
  return { sources, products: await openStore(productsUrl, { ...opening, space }) }
}

export const isMissing = (error: unknown): boolean =>
  error instanceof RedressError && error.code === 'ARTIFACT_NOT_FOUND'
