/** Guarded requests to addresses that users chose: `redress/outbound`. */
export { retryAfterHeaderMs } from '../core/failure/retry-after.ts'
export { type OutboundAgentOptions, outboundAgent } from './agent.ts'
export type { OutboundProxy } from './connector.ts'
export { readEarlyAnswers } from './early-answer.ts'
export {
  type ConnectCode,
  ConnectFailed,
  NameNotResolved,
  OutboundRefused,
  OutboundTimeout,
  type ProxyCode,
  ProxyFailed,
  type RedirectCode,
  RedirectFailed,
  type RefusalCode,
  timeoutPhase,
} from './errors.ts'
export {
  type OutboundGuard,
  type OutboundOptions,
  type OutboundTarget,
  outboundGuard,
  type ResolvedAddress,
} from './guard.ts'
export { type OutboundRequestOptions, type OutboundResponse, outboundRequest } from './request.ts'
export { isGlobalAddress } from './rules.ts'
