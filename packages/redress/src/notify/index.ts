/** Channels for notices: mail and signed webhooks, and what a channel of your own is made of: `redress/notify`. */
export type { Channel, Delivered, Delivery, DeliveryCode, NotifyOptions } from '../app/channels.ts'
export type { Notice, NoticeBatch, NoticeContent, NoticeFailure, NoticeJob } from '../core/notice/notice.ts'
export { type NoticeText, type NoticeTextOptions, renderNotice } from '../core/notice/text.ts'
export { type Address, type EmailOptions, email, type Mail, type SmtpOptions } from './email.ts'
export { type WebhookOptions, webhook } from './webhook.ts'
