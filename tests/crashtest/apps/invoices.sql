create table invoices (sale int primary key, amount int not null);
