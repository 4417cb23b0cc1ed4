// Takes a machine into the cluster: mints a token, registers, approves, and reports each step until it has joined.
// The operator's part and the node's are in one program here; they would be on two machines.
//
//     node join.js http://127.0.0.1:8080 .gatehouse/operator.token https://127.0.0.1:8443 .gatehouse/ca/ca.pem
import { readFileSync } from 'node:fs'
import { createClient, createConfig } from '../../hey-api/join/client/index.js'
import {
  approveNodeJoin, getRegistration, mintJoinToken, register, reportJoinEvents, type Registration,
} from '../../hey-api/join/index.js'
import { fetchOver, hasPin, keyAndRequest, sleep } from '../tls.js'

const [control = '', tokenFile = '', founder = '', caFile = ''] = process.argv.slice(2)
const ca = readFileSync(caFile, 'utf8')
const operator = createClient(createConfig({ baseUrl: control, auth: readFileSync(tokenFile, 'utf8').trim() }))

// With throwOnError a problem is thrown as it came, and `data` is there for sure.
const { data: minted } = await mintJoinToken({ client: operator, body: { ttlSeconds: 600 }, throwOnError: true })

const [secret = '', pin = ''] = minted.token.split('.')
if (!hasPin(ca, pin)) throw new Error('the authority is not the one that the token names')
const { key, csr } = keyAndRequest()
const name = `node-${minted.tokenId.slice(-12)}`
const newcomer = createClient(createConfig({ baseUrl: founder, auth: secret, fetch: fetchOver({ ca }) }))
const { data: admission } = await register({
  client: newcomer, body: { name, role: 'compute', address: `${name}.example`, csr }, throwOnError: true,
})
console.log(admission.state)

const path = { joinId: admission.joinId }
await approveNodeJoin({ client: operator, path, throwOnError: true })

// From here on the certificate is what authenticates.
const node = createClient(
  createConfig({ baseUrl: founder, fetch: fetchOver({ ca, cert: admission.certificate, key }) }),
)

async function registration(): Promise<Registration> {
  return (await getRegistration({ client: node, path, throwOnError: true })).data
}

async function until(reached: (now: Registration) => boolean): Promise<void> {
  while (!reached(await registration())) await sleep(200)
}

async function report(step: string, status: 'running' | 'done'): Promise<void> {
  await reportJoinEvents({ client: node, path, body: { events: [{ type: 'step', step, status }] }, throwOnError: true })
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
