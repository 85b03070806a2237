import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const read = (name: string): string => readFileSync(join(import.meta.dirname, 'certificates', name), 'utf8')

/**
 * Made with openssl, once: an authority (its key was thrown away) and a server that it vouches for as good.example,
 * *.good.example, localhost, 127.0.0.1 and ::1, from 2020 to 2120. Nobody but these tests trusts it.
 */
export const TEST_CA: string = read('authority.pem')

export const TEST_SERVER: { cert: string; key: string } = { cert: read('server.pem'), key: read('server-key.pem') }

/** Made with openssl, once: another authority (its key was thrown away), and a client that it vouches for as postgres. */
export const TEST_CLIENT: { ca: string; cert: string; key: string } = {
  ca: read('client-authority.pem'),
  cert: read('client.pem'),
  key: read('client-key.pem'),
}
