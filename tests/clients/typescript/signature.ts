// Signs an event: the last thing before it is sent, whichever client sends it.
import { createHmac } from 'node:crypto'

const SIGNED = [
  'ce-id', 'ce-source', 'ce-type', 'ce-time', 'ce-dataschema',
  'X-Registry-Event-Generation', 'X-Registry-Delivery-Attempt', 'X-Registry-Delivery-Time',
]

/** Returns the request with its body in canonical JSON, and signed. */
export async function sign(request: Request, key: Uint8Array): Promise<Request> {
  const body = canonical(await request.json())
  const url = new URL(request.url)
  const header = (name: string) => request.headers.get(name) ?? ''
  const values = [
    '1.0', ...SIGNED.map(header), request.method, url.pathname + url.search,
    header('Content-Type'), header('Idempotency-Key'), body,
  ]
  const hmac = createHmac('sha256', key).update('breg-webhook-signature-v1')
  for (const value of values.map((each) => Buffer.from(each))) {
    const length = Buffer.alloc(8)
    length.writeBigUInt64BE(BigInt(value.length))
    hmac.update(length).update(value)
  }
  const headers = new Headers(request.headers)
  headers.set('X-Registry-Signature', `v1=${hmac.digest('base64url')}`)
  return new Request(url, { method: request.method, headers, body })
}

/** Returns JSON as RFC 8785 has it: JavaScript's own spelling of numbers and text, and the members in order. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const members = Object.entries(value).filter(([, each]) => each !== undefined).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`
}

/** Returns this moment, as events spell it. */
export const now = () => new Date().toISOString().replace(/\.[0-9]{3}Z$/, 'Z')
