// A client that knows its issuer, id and secret alone: discovery, the code's
// id_token and a refresh's, both verified with their signature, and a logout.
import { readFileSync } from 'node:fs'
import * as openid from 'openid-client'

const job = JSON.parse(readFileSync(0, 'utf8'))
const config = await openid.discovery(new URL(job.issuer), job.client_id, { id_token_signed_response_alg: job.alg }, openid.ClientSecretBasic(job.client_secret))
openid.enableNonRepudiationChecks(config)
const first = await openid.authorizationCodeGrant(config, new URL(job.callback_url), { idTokenExpected: true })
const second = await openid.refreshTokenGrant(config, first.refresh_token)
const userinfo = await openid.fetchUserInfo(config, second.access_token, first.claims().sub)
const end = openid.buildEndSessionUrl(config, { id_token_hint: second.id_token, post_logout_redirect_uri: job.goodbye, state: 's' })
const after = (await fetch(end, { redirect: 'manual' })).headers.get('location')
console.log(JSON.stringify({ first: first.claims(), second: second.claims(), userinfo, after }))
