// Takes a machine into the cluster: mints a token, registers, approves, and reports each step until it has joined.
// The operator's part and the node's are in one program here; they would be on two machines.
//
//     node join.js http://127.0.0.1:8080 .gatehouse/operator.token https://127.0.0.1:8443 .gatehouse/ca/ca.pem
import { readFileSync } from 'node:fs'
import createClient from 'openapi-fetch'
import type { components, paths } from '../../openapi-fetch/join.js'
import { fetchOver, hasPin, keyAndRequest, sleep } from '../tls.js'

const [control = '', tokenFile = '', founder = '', caFile = ''] = process.argv.slice(2)
const ca = readFileSync(caFile, 'utf8')
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })
const operator = createClient<paths>({ baseUrl: control, headers: bearer(readFileSync(tokenFile, 'utf8').trim()) })

const { data: minted, error: notMinted } = await operator.POST('/v1/join/tokens', { body: { ttlSeconds: 600 } })
if (notMinted) throw new Error(`no token: ${notMinted.code}`)

const [secret = '', pin = ''] = minted.token.split('.')
if (!hasPin(ca, pin)) throw new Error('the authority is not the one that the token names')
const { key, csr } = keyAndRequest()
const name = `node-${minted.tokenId.slice(-12)}`
const newcomer = createClient<paths>({ baseUrl: founder, headers: bearer(secret), fetch: fetchOver({ ca }) })
const { data: admission, error: notRegistered } = await newcomer.POST('/v1/join/registrations', {
  body: { name, role: 'compute', address: `${name}.example`, csr },
})
if (notRegistered) throw new Error(`not registered: ${notRegistered.code}`)
console.log(admission.state)

const path = { joinId: admission.joinId }
const { error: notApproved } = await operator.POST('/v1/join/registrations/{joinId}/approve', { params: { path } })
if (notApproved) throw new Error(`not approved: ${notApproved.code}`)

// From here on the certificate is what authenticates.
const node = createClient<paths>({
  baseUrl: founder, fetch: fetchOver({ ca, cert: admission.certificate, key }),
})

async function registration(): Promise<components['schemas']['Registration']> {
  const { data, error } = await node.GET('/v1/join/registrations/{joinId}', { params: { path } })
  if (error) throw new Error(`the registration is not shown: ${error.code}`)
  return data
}

async function until(reached: (now: components['schemas']['Registration']) => boolean): Promise<void> {
  while (!reached(await registration())) await sleep(200)
}

async function report(step: string, status: 'running' | 'done'): Promise<void> {
  const { error } = await node.POST('/v1/join/registrations/{joinId}/events', {
    params: { path }, body: { events: [{ type: 'step', step, status }] },
  })
  if (error) throw new Error(`the report is refused: ${error.code}`)
}

await until(({ state }) => state === 'joining')
console.log('joining')
for (const step of (await registration()).plan) {
  await report(step, 'running')
  // The server adds the node as a learner; here its member would be started, and would catch up.
  if (step.startsWith('raft:')) await until(({ rafts }) => rafts.every(({ state }) => state === 'learner'))
  await report(step, 'done')
}
await until(({ state }) => state === 'joined')
console.log('joined')
