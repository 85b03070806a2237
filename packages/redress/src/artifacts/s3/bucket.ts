import { Agent, type ClientRequestArgs } from 'node:http'
import { Agent as SecureAgent } from 'node:https'
import type { Socket } from 'node:net'
import type {
  $Command,
  S3Client,
  S3ClientResolvedConfig,
  ServiceInputTypes,
  ServiceOutputTypes,
} from '@aws-sdk/client-s3'
import { readEarlyAnswers } from '../../outbound/early-answer.ts'
import { loadPeers } from '../../runtime/optional-peers.ts'
import { unlessAborted } from '../body.ts'
import type { S3Target, S3Timeouts } from './options.ts'

type Sdk = typeof import('@aws-sdk/client-s3')

/** One bucket and the client that reaches it: every request of this driver passes through `send`. */
export class Bucket {
  readonly sdk: Sdk
  readonly name: string
  readonly prefix: string
  readonly #client: S3Client

  private constructor(sdk: Sdk, client: S3Client, { bucket, prefix }: S3Target) {
    this.sdk = sdk
    this.#client = client
    this.name = bucket
    this.prefix = prefix
  }

  /** Sends nothing yet. The SDK is loaded here and nowhere else: programs that do not use S3 do not need it. */
  static async open(target: S3Target, timeouts: S3Timeouts): Promise<Bucket> {
    const sdk = await loadPeers('An s3: artifact store', () => import('@aws-sdk/client-s3'))
    return new Bucket(sdk, new sdk.S3Client(clientConfig(target, timeouts)), target)
  }

  /** What every request about one object has in common. */
  object(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.name, Key: this.prefix + key }
  }

  send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    command: $Command<Input, Output, S3ClientResolvedConfig, ServiceInputTypes, ServiceOutputTypes>,
    signal?: AbortSignal | undefined,
  ): Promise<Output> {
    const answer = this.#client.send(command, signal === undefined ? {} : { abortSignal: signal })
    // The SDK rejects with an AbortError of its own; whoever aborted wants to find their reason.
    return unlessAborted(answer, signal)
  }

  close(): void {
    this.#client.destroy()
  }
}

/** The same settings as the SDK's default. */
const AGENT = { keepAlive: true, maxSockets: 50 }

/** If a bucket refuses a part before all of it was sent, its response gives the reason. */
function readingEarly<Some extends Agent>(agent: Some): Some {
  const create = agent.createConnection.bind(agent)
  agent.createConnection = (options: ClientRequestArgs, done) => {
    const socket = create(options, done)
    return socket === null || socket === undefined ? socket : readEarlyAnswers(socket as Socket)
  }
  return agent
}

/**
 * Everything is said here, because what is left out the SDK looks up in the environment and in ~/.aws: with
 * AWS_ENDPOINT_URL_S3 set, artifacts would go to a place that nobody configured.
 */
function clientConfig(target: S3Target, { connectTimeoutMs = 5000, requestTimeoutMs = 60_000 }: S3Timeouts) {
  const { region, endpoint, forcePathStyle, credentials } = target
  return {
    region,
    endpoint,
    forcePathStyle,
    credentials: (typeof credentials === 'function' ? credentials : async () => credentials) as () => Promise<never>,
    // A failed attempt is recorded, decided on and repeated by the job's policy; a second loop would hide it.
    maxAttempts: 1,
    retryMode: 'standard',
    defaultsMode: 'standard' as const,
    useDualstackEndpoint: false,
    useFipsEndpoint: false,
    useArnRegion: false,
    followRegionRedirects: false,
    disableS3ExpressSessionAuth: true,
    authSchemePreference: ['sigv4'],
    sigv4aSigningRegionSet: [region],
    userAgentAppId: 'redress',
    // We send a SHA-256 with everything that has a body. More than that, some S3-compatible stores do not understand.
    requestChecksumCalculation: 'WHEN_REQUIRED' as const,
    responseChecksumValidation: 'WHEN_REQUIRED' as const,
    // Not every store answers '100 Continue', and the SDK would wait for it.
    expectContinueHeader: false,
    requestHandler: {
      httpAgent: readingEarly(new Agent(AGENT)),
      httpsAgent: readingEarly(new SecureAgent(AGENT)),
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
      // Silence while a slow reader keeps us from reading is no fault: see received.ts, which knows the difference.
      socketTimeout: 0,
    },
  }
}
