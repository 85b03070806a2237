import type { ArtifactStore } from 'redress/artifacts'
import { type OutboundOptions, outboundGuard } from 'redress/outbound'
import type { Transfer } from '../transfer-port.ts'
import { Connections } from './connections.ts'
import { type DownloadLimits, type DownloadTask, download, type Spooled } from './download.ts'
import { Proxies, type ProxyState, type ProxyTiers } from './proxies.ts'
import type { SpoolOptions } from './spool.ts'
import { type UploadOptions, upload } from './upload.ts'

export interface TransferOptions {
  store: ArtifactStore
  spool: SpoolOptions
  limits: DownloadLimits
  /** Additional addresses that may be reached. */
  outbound?: OutboundOptions
  /** Certificates (PEM) to trust instead of those that Node brings. */
  ca?: string
  /** Without proxies, origins are connected directly. */
  proxies?: ProxyTiers
  userAgent?: string
  verification?: UploadOptions['verification']
  nowMs?(): number
  /** Called when a proxy is taken out of use, and when it is back. */
  onProxyChange?(proxy: ProxyState): void
}

/** The real transfer, with the state that operators can see. */
export interface OpenTransfer extends Transfer {
  download(task: DownloadTask, options: { signal: AbortSignal; avoidProxy: string | null }): Promise<Spooled>
  /** Empty if there are no proxies. */
  proxies(): readonly ProxyState[]
}

export function openTransfer(options: TransferOptions): OpenTransfer {
  const { store, spool, limits, userAgent, verification, nowMs = Date.now } = options
  const guard = outboundGuard(options.outbound)
  const connections = new Connections(guard, limits, options.ca)
  const proxies =
    options.proxies === undefined ? null : new Proxies(options.proxies, { nowMs, onChange: options.onProxyChange })
  const common = { connections, proxies, limits, spool, nowMs, ...(userAgent !== undefined && { userAgent }) }
  return {
    download: (task, { avoidProxy, signal }) => download(task, { ...common, avoidProxy, signal }),
    upload: (spooled, { key, signal }) =>
      upload(spooled, { store, key, signal, nowMs, ...(verification !== undefined && { verification }) }),
    proxies: () => proxies?.snapshot() ?? [],
    close: () => connections.close(),
  }
}
