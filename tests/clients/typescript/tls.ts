// TLS in node: an authority of one's own, a client's certificate, and a request for one.
import { execFileSync } from 'node:child_process'
import { X509Certificate, createHash } from 'node:crypto'
import { Agent } from 'undici'

/** Returns a fetch that trusts this authority and shows this certificate, where there is one. */
export function fetchOver(tls: { ca: string; cert?: string; key?: string }): typeof fetch {
  const dispatcher = new Agent({ connect: tls })
  return (input, init) => fetch(input, { ...init, dispatcher } as RequestInit)
}

/** Tells whether the authority is the one that a join token names: the token is sent to no other. */
export function hasPin(ca: string, pin: string): boolean {
  const key = new X509Certificate(ca).publicKey.export({ type: 'spki', format: 'der' })
  return createHash('sha256').update(key).digest('base64url') === pin
}

/** Makes a key and a certificate request for it, by openssl: node has nothing of its own for requests. */
export function keyAndRequest(): { key: string; csr: string } {
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const made = execFileSync('openssl', ['req', '-new', ...curve, '-subj', '/CN=node', '-keyout', '-'], {
    encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [key = '', csr = ''] = made.split(/^(?=-----BEGIN CERTIFICATE REQUEST-----)/m)
  return { key, csr }
}

export const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))
