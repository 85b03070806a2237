// What it adds to requests and replies is there for the routes of apps, too.
/// <reference types="@fastify/cookie" preserve="true" />
export type { Caller, Role } from '../operations/caller.ts'
export type { AppModule, CopiedCount, InstalledApp, Surroundings } from './app-module.ts'
export type { FindCaller } from './callers.ts'
export { clientAddress, type TrustedProxies } from './client-address.ts'
export type { CompleteJob, FindFile, JobFile } from './downloads.ts'
export type { MayHear } from './events.ts'
export { HTTP_LIMITS, type HttpLimits } from './limits.ts'
export { Html, html, page } from './pages/html.ts'
export { noteOnRequest } from './request-log.ts'
export {
  artifactFile,
  diskFile,
  type FileFacts,
  type FileRange,
  type FileSource,
  type SendFileOptions,
  sendFile,
} from './send-file.ts'
export { type HttpServer, type Mount, type MountTools, type ServerOptions, startServer } from './server.ts'
