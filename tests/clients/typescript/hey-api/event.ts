// Sends a signed event, and follows the run that it starts to its end.
//
//     node event.js http://127.0.0.1:8080 .gatehouse/sources/demo.key .gatehouse/operator.token
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createClient, createConfig } from '../../hey-api/coordinator/client/index.js'
import { admitEvent, getRun, type HookEnvelope } from '../../hey-api/coordinator/index.js'
import { now, sign } from '../signature.js'
import { sleep } from '../tls.js'

const [baseUrl = '', keyFile = '', tokenFile = ''] = process.argv.slice(2)
const key = readFileSync(keyFile)
const sender = createClient(createConfig({ baseUrl }))
sender.interceptors.request.use((request) => sign(request, key))
const operator = createClient(createConfig({ baseUrl, auth: readFileSync(tokenFile, 'utf8').trim() }))

/** Delivers an event once, and returns the id of its run; the same event may be delivered again and again. */
async function deliver(event: HookEnvelope, attempt = 1): Promise<string> {
  const { error, response } = await admitEvent({
    client: sender,
    path: { workflow: 'case-follow-up', trigger: 'case-created' },
    headers: {
      'ce-specversion': '1.0', 'ce-id': event.id, 'ce-source': event.source, 'ce-type': event.type,
      'ce-time': event.time, 'ce-dataschema': event.dataschema, 'X-Registry-Event-Generation': '1',
      'X-Registry-Delivery-Attempt': `${attempt}`, 'X-Registry-Delivery-Time': now(),
      'Idempotency-Key': `demo:${event.id}`,
    },
    body: event,
  })
  // `error` is a union of the documented problems, told apart by `code`; without an answer it is what fetch threw.
  if (error || !response) throw new Error(`the event is refused: ${error?.code}`)
  return response.headers.get('X-Coordinator-Run-Id') ?? ''
}

const id = randomUUID()
const runId = await deliver({
  causation: { hop: 0, root: id },
  data: { caseId: 'C-2026-0417' },
  dataschema: 'urn:gatehouse:demo:case-created-v1',
  id,
  source: 'urn:gatehouse:demo',
  subject: { recordReference: 'case/C-2026-0417', recordRevision: 1 },
  time: now(),
  type: 'case-created-v1',
})
for (;;) {
  const { data: run } = await getRun({ client: operator, path: { run: runId }, throwOnError: true })
  if (['completed', 'failed', 'cancelled'].includes(run.state)) {
    console.log(run.state, run.outcome, JSON.stringify(run.output))
    break
  }
  await sleep(200)
}
