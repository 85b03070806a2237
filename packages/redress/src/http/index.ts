// Routes of apps also use the cookie types of requests and replies.
/// <reference types="@fastify/cookie" preserve="true" />
export type { Caller, Role } from '../operations/caller.ts'
export type {
  AppCommand,
  AppModule,
  CommandCall,
  CommandOption,
  CommandTarget,
  CopiedCount,
  InstallContext,
  InstalledApp,
} from './app-module.ts'
export type { FindCaller } from './callers/callers.ts'
export { clientAddress, type TrustedProxies } from './callers/client-address.ts'
export type { MayHear } from './events/events.ts'
export type { CompleteJob, FindFile, JobFile } from './files/downloads.ts'
export {
  artifactFile,
  diskFile,
  type FileFacts,
  type FileRange,
  type FileSource,
  type SendFileOptions,
  sendFile,
} from './files/send-file.ts'
export { HTTP_LIMITS, type HttpLimits } from './limits.ts'
export { Html, html, page } from './pages.ts'
export { noteOnRequest } from './request-log.ts'
export type { RouteDescription } from './routes/app-routes.ts'
export { type HttpServer, type Mount, type MountTools, type ServerOptions, startServer } from './server.ts'
